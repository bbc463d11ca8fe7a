//! Writes how the work ended, again and again while the store does not answer.

use std::time::Duration;

use crate::lease::Lease;
use crate::store::{Completion, StoreError};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// How the end of the work was recorded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// With its result.
    Yes,
    /// Without its result, for this reason.
    WithoutResult(String),
    /// Not at all: another owner has the record.
    TakenOver,
    /// Not at all: the store did not answer in time.
    No,
}

/// Records that the work is done, with its result as JSON text or why there is none. A result that the store refuses is recorded as not stored, so that nobody does the work again.
pub(crate) async fn complete(lease: &Lease<'_>, result: Result<String, String>) -> Recorded {
    let reason = match result {
        Ok(text) => match write(lease, Ok(&text)).await {
            Ok(true) => return Recorded::Yes,
            Ok(false) => return Recorded::TakenOver,
            Err(error) if error.refused_result => error.error.message,
            Err(error) => return not_recorded(lease, &error),
        },
        Err(reason) => reason,
    };
    tracing::warn!(
        key = lease.key,
        reason,
        "a result cannot be stored: this call and its repeats fail, and the work is not done again"
    );
    match write(lease, Err(&reason)).await {
        Ok(true) => Recorded::WithoutResult(reason),
        Ok(false) => Recorded::TakenOver,
        Err(error) => not_recorded(lease, &error),
    }
}

fn not_recorded(lease: &Lease<'_>, error: &StoreError) -> Recorded {
    tracing::error!(key = lease.key, %error, "the end of idempotent work is not recorded: it may be done again");
    Recorded::No
}

/// Writes the end of the work. Returns whether the record has this owner.
async fn write(lease: &Lease<'_>, result: Result<&str, &str>) -> Result<bool, StoreError> {
    let settings = lease.settings;
    until_answered(lease, || {
        let expires = lease.time.now().plus(settings.expires_after).0 / 1_000;
        let completion = Completion {
            key: lease.key,
            owner: &lease.owner,
            expires,
            result,
        };
        async move { settings.store.complete(&completion).await }
    })
    .await
}

/// Deletes the record of work that failed, so that it can be done again.
pub(crate) async fn release(lease: &Lease<'_>) {
    let store = &lease.settings.store;
    let released = until_answered(lease, || store.release(lease.key, &lease.owner)).await;
    if let Err(error) = released {
        tracing::warn!(key = lease.key, %error, "the record of failed work is not deleted: its lease has to end");
    }
}

/// Calls the store until it answers, for as long as the settings and the deadline allow. At least once.
async fn until_answered<T, F>(lease: &Lease<'_>, call: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let time = lease.time;
    let end = time.now().plus(lease.settings.record_timeout);
    let end = lease.deadline.map_or(end, |deadline| end.min(deadline));
    let mut delay = FIRST_DELAY;
    loop {
        let error = match lease.within(end, call()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if error.refused_result || time.now().plus(delay) >= end {
            return Err(error);
        }
        time.sleep(delay).await;
        delay = (delay * 2).min(LONGEST_DELAY);
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
