//! Requests that are repeated while they may still succeed, after waits that grow and that chance makes different: processes that failed together do not come back together.

use std::future::Future;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep};

use super::{BATCH_ENTRIES, EntryError, QueueError, SubmitError};

/// The waits before a message is sent again that the queue may have accepted: each time, there may be another copy.
pub const AFTER_LOST_SEND: Backoff = Backoff::milliseconds(2_000, 8_000);

/// How often a request is tried, for how long, and the waits in between.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    backoffs: Backoffs,
    tries: u32,
    within: Duration,
}

/// The waits between tries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoffs {
    pub(super) known: Backoff,
    /// After a try that may have been carried out.
    pub(super) unknown: Backoff,
}

/// The result of one entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried<T> {
    /// The result of its last try.
    pub result: Result<T, SubmitError>,
    /// Whether nobody knows if one of its tries was carried out.
    pub is_uncertain: bool,
}

impl Retry {
    /// Without an end, after these waits.
    pub const fn new(waits: Backoff) -> Self {
        Self {
            backoffs: Backoffs {
                known: waits,
                unknown: waits,
            },
            tries: u32::MAX,
            within: Duration::MAX,
        }
    }

    /// At most so many tries.
    pub const fn tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// No try begins later than this after the first.
    pub const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Waits like this after a try of a batch that may have been carried out.
    pub const fn after_unknown(self, unknown: Backoff) -> Self {
        let known = self.backoffs.known;
        Self {
            backoffs: Backoffs { known, unknown },
            ..self
        }
    }

    /// Repeats a request while `may_repeat` allows it for its error. It is not asked about the error of the last try.
    pub async fn request<T, E, F>(
        self,
        request: impl Fn() -> F,
        mut may_repeat: impl FnMut(&E) -> bool,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let started = Instant::now();
        let mut tried = 0;
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tried += 1;
            let wait = self.backoffs.known.wait(tried, rand::random());
            if self.is_last(tried, started, wait) || !may_repeat(&error) {
                return Err(error);
            }
            sleep(wait).await;
        }
    }

    /// Sends a batch, and its failed entries again that may still succeed, while `goes_on` allows it. Returns the result of each entry, in their order.
    pub async fn batch<E, T, F>(
        self,
        entries: &[E],
        goes_on: impl Fn() -> bool,
        request: impl Fn(Vec<E>) -> F,
    ) -> Vec<Tried<T>>
    where
        E: Clone,
        F: Future<Output = Result<Vec<Result<T, EntryError>>, QueueError>>,
    {
        let started = Instant::now();
        let untried = || Tried {
            result: Err(EntryError::missing().into()),
            is_uncertain: false,
        };
        let mut all: Vec<_> = entries.iter().map(|_| untried()).collect();
        let settle = |index: usize, result: Result<T, SubmitError>, round: Round| {
            let slot = all.get_mut(index)?;
            let error = result.as_ref().err();
            let is_last = self.is_last(round.tried, started, round.wait) || !goes_on();
            let is_again = error.is_some_and(SubmitError::is_retryable) && !is_last;
            slot.is_uncertain |= error.is_some_and(SubmitError::is_unknown);
            slot.result = result;
            is_again.then_some(index)
        };
        let entry = |index: &usize| entries.get(*index).cloned();
        let batch = (0..entries.len()).collect();
        until_settled(batch, self.backoffs, entry, request, settle).await;
        all
    }

    /// Sends entries in batches, so many at the same time, each as [`Retry::batch`] does. Returns the result of each entry, in their order.
    pub async fn batches<E, T, F>(
        self,
        entries: &[E],
        concurrent: usize,
        request: impl Fn(Vec<E>) -> F,
    ) -> Vec<Result<T, SubmitError>>
    where
        E: Clone,
        F: Future<Output = Result<Vec<Result<T, EntryError>>, QueueError>>,
    {
        let batches = entries.chunks(BATCH_ENTRIES);
        let sent: Vec<_> = batches
            .map(|batch| self.batch(batch, || true, &request))
            .collect();
        let results: Vec<_> = stream::iter(sent).buffered(concurrent).collect().await;
        results.into_iter().flatten().map(|it| it.result).collect()
    }

    fn is_last(self, tried: u32, started: Instant, wait: Duration) -> bool {
        tried >= self.tries || started.elapsed() + wait >= self.within
    }
}

/// One try of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// Its number, from 1.
    pub(super) tried: u32,
    /// How long the next one would wait.
    pub(super) wait: Duration,
}

/// Sends a batch, and again what `settle` returns of it, until there is nothing left. `entry` is what to send of each, or nothing if nobody waits for it any more.
pub(super) async fn until_settled<P, E, T, F>(
    mut batch: Vec<P>,
    backoffs: Backoffs,
    entry: impl Fn(&P) -> Option<E>,
    request: impl Fn(Vec<E>) -> F,
    mut settle: impl FnMut(P, Result<T, SubmitError>, Round) -> Option<P>,
) where
    F: Future<Output = Result<Vec<Result<T, EntryError>>, QueueError>>,
{
    let mut tried = 0;
    loop {
        let mut entries = Vec::with_capacity(batch.len());
        batch.retain(|one| entry(one).map(|it| entries.push(it)).is_some());
        if batch.is_empty() {
            return;
        }
        let results = match request(entries).await {
            Ok(results) => results.into_iter().map(|it| Ok(it?)).collect(),
            // One entry may be the reason: each is sent by itself.
            Err(error) if batch.len() > 1 && error.may_concern_one_entry() => {
                let alone = batch.iter().map(|one| alone(entry(one), &request));
                join_all(alone).await
            }
            Err(error) => batch.iter().map(|_| Err(error.clone().into())).collect(),
        };
        tried += 1;
        let is_unknown = |it: &Result<T, _>| it.as_ref().is_err_and(SubmitError::is_unknown);
        let is_lost = results.len() < batch.len() || results.iter().any(is_unknown);
        let backoff = if is_lost {
            backoffs.unknown
        } else {
            backoffs.known
        };
        let wait = backoff.wait(tried, rand::random());
        let missing = std::iter::repeat_with(|| Err(EntryError::missing().into()));
        let settled = batch.into_iter().zip(results.into_iter().chain(missing));
        let round = Round { tried, wait };
        batch = settled
            .filter_map(|(one, result)| settle(one, result, round))
            .collect();
        if !batch.is_empty() {
            sleep(wait).await;
        }
    }
}

async fn alone<E, T, F>(entry: Option<E>, request: impl Fn(Vec<E>) -> F) -> Result<T, SubmitError>
where
    F: Future<Output = Result<Vec<Result<T, EntryError>>, QueueError>>,
{
    let entry = entry.ok_or(SubmitError::Ended)?;
    let results = request(vec![entry]).await?;
    let result = results.into_iter().next();
    Ok(result.unwrap_or_else(|| Err(EntryError::missing()))?)
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
