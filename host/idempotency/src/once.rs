//! One call: claim the key, do the work, record its end.

use std::pin::Pin;

use backstop_core::failure::Timestamp;
use backstop_core::idempotency::OnUnknown;
use backstop_time::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::call_time::CallTime;
use crate::error::{LeaseEnd, OnceError};
use crate::key::{Key, KeyError};
use crate::lease::Lease;
use crate::observed::Observed;
use crate::settings::Settings;
use crate::settle::{Recorded, complete, release};
use crate::store::{Claim, Claimed, Record, Status, StoreError};
use crate::wait::Wait;

/// The result of work that is done.
///
/// ```
/// use backstop_idempotency::Completed;
///
/// fn log(done: &Completed<u64>) {
///     if !done.recorded {
///         eprintln!("{} may be charged again: the table does not know of it", done.result);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed<T> {
    /// What the work returned, now or the first time.
    pub result: T,
    /// Whether the work was done before and this is its stored result.
    pub repeated: bool,
    /// Whether the store knows that the work is done. `false` if the store did not answer for as long as [`record_timeout`](crate::IdempotencyBuilder::record_timeout), and for an event without a key: another call may do the work again.
    pub recorded: bool,
}

/// A call that has not begun. Await it.
#[must_use = "a call begins when it is awaited"]
#[derive(Debug)]
pub struct Once<'a, W> {
    settings: &'a Settings,
    key: Result<Option<Key>, KeyError>,
    deadline: Option<Deadline>,
    wait: Option<Deadline>,
    work: W,
}

impl<'a, W> Once<'a, W> {
    pub(crate) fn new(settings: &'a Settings, key: Result<Option<Key>, KeyError>, work: W) -> Self {
        Self {
            settings,
            key,
            deadline: None,
            wait: None,
            work,
        }
    }

    /// When the work has to be done. Its lease ends then, and it is stopped.
    pub fn deadline(self, deadline: impl Into<Deadline>) -> Self {
        Self {
            deadline: Some(deadline.into()),
            ..self
        }
    }

    /// Waits for work in progress elsewhere, at most until then and until the [`deadline`](Self::deadline), instead of failing with [`OnceError::InProgress`] at once.
    ///
    /// The call looks at the record again and again, after 50 ms and then less and less often, every two seconds at most. It returns the owner's result as soon as that is stored, and does the work itself if the owner failed or its lease is over. Each look costs a write.
    ///
    /// ```
    /// # use backstop_idempotency::{Idempotency, MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::default(), "orders").build()?;
    /// let ship = || async { Ok::<_, std::io::Error>("shipped".to_owned()) };
    /// let (one, other) = tokio::try_join!(
    ///     idempotency.once("o-7", ship).or_wait(Duration::from_secs(30)).into_future(),
    ///     idempotency.once("o-7", ship).or_wait(Duration::from_secs(30)).into_future(),
    /// )?;
    /// assert!(one.repeated != other.repeated);
    /// # Ok(())
    /// # }
    /// ```
    pub fn or_wait(self, bound: impl Into<Deadline>) -> Self {
        Self {
            wait: Some(bound.into()),
            ..self
        }
    }
}

impl<'a, W, F, T, E> IntoFuture for Once<'a, W>
where
    W: FnOnce() -> F + Send + 'a,
    F: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Send + 'a,
{
    type Output = Result<Completed<T>, OnceError<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<W, F, T, E> Once<'_, W>
where
    W: FnOnce() -> F,
    F: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
{
    /// Runs the call. Awaiting it does the same for work that is `Send`.
    pub async fn run(self) -> Result<Completed<T>, OnceError<E>> {
        if self.key.is_err() {
            self.settings.observe(Observed::Refused);
        }
        let Some(key) = self.key? else {
            let result = (self.work)().await.map_err(OnceError::Work)?;
            return Ok(Completed {
                result,
                repeated: false,
                recorded: false,
            });
        };
        let settings = self.settings;
        let time = CallTime::begin(&*settings.clock);
        let now = time.now();
        let end = |deadline: Deadline| now.plus(deadline.left(&*settings.clock));
        let deadline = self.deadline.map(end);
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(OnceError::LeaseEnded(LeaseEnd::Deadline));
        }
        let mut wait = Wait::until(self.wait.map(end), deadline);
        // The tokens of claims that may yet be carried out.
        let mut doubtful: Vec<String> = Vec::new();
        let lease = loop {
            // A token for each claim: a request of an earlier one that arrives late concerns no later record.
            let owner = Uuid::new_v4().simple().to_string();
            let lease = Lease::new(settings, &time, key.as_str(), owner, deadline);
            let ended = match claim(&lease, &key).await {
                Ok(Claimed::Yes { taken_over }) => {
                    settings.observe(if taken_over {
                        Observed::TakenOver
                    } else {
                        Observed::Fresh
                    });
                    break lease;
                }
                Ok(Claimed::No(record)) => {
                    if let Some(own) = record.owner.as_ref().filter(|it| doubtful.contains(it)) {
                        withdraw(&lease, own).await;
                    }
                    repeat(settings, &key, record, time.now())
                }
                Err(error) => {
                    if error.may_have_happened {
                        doubtful.push(lease.owner.clone());
                    }
                    Err(OnceError::Store(error))
                }
            };
            match wait.pause(&ended, time.now(), random()) {
                Some(pause) => time.sleep(pause).await,
                None => {
                    settings.observe(observed(&ended));
                    return ended;
                }
            }
        };
        let result = match lease.protect((self.work)()).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                release(&lease).await;
                return Err(OnceError::Work(error));
            }
            Err(end) => {
                tracing::warn!(key = key.as_str(), %end, "idempotent work was stopped without its lease");
                settings.observe(Observed::LeaseEnded);
                return Err(OnceError::LeaseEnded(end));
            }
        };
        let text = serde_json::to_string(&result).map_err(|error| error.to_string());
        let recorded = match complete(&lease, text).await {
            Recorded::Yes => true,
            Recorded::WithoutResult(reason) => return Err(OnceError::ResultNotStored { reason }),
            Recorded::TakenOver => {
                settings.observe(Observed::LeaseEnded);
                return Err(OnceError::LeaseEnded(LeaseEnd::TakenOver));
            }
            Recorded::No => {
                settings.observe(Observed::NotRecorded);
                false
            }
        };
        Ok(Completed {
            result,
            repeated: false,
            recorded,
        })
    }
}

/// A number from 0 to 1, 1 excluded.
fn random() -> f64 {
    let (number, ..) = Uuid::new_v4().as_fields();
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

/// Claims the key now.
async fn claim(lease: &Lease<'_>, key: &Key) -> Result<Claimed, StoreError> {
    let store = &lease.settings.store;
    let claim = Claim {
        key: key.as_str(),
        owner: &lease.owner,
        now: lease.time.now(),
        lease_until: lease.until(),
        expires: lease.expires(lease.until()),
        validation: key.validation(),
        take_over: lease.settings.on_unknown == OnUnknown::Retry,
    };
    match lease.within(lease.until(), store.claim(&claim)).await {
        Ok(claimed) => Ok(claimed),
        Err(error) => {
            // The work was not done, so nobody should wait for a lease that nobody has.
            if error.may_have_happened {
                withdraw(lease, claim.owner).await;
            }
            Err(error)
        }
    }
}

/// Deletes the record of a claim whose work did not begin.
async fn withdraw(lease: &Lease<'_>, owner: &str) {
    let release = lease.settings.store.release(lease.key, owner);
    let _ = lease.within(lease.until(), release).await;
}

/// What a call found that does no work.
fn observed<T, E>(ended: &Result<Completed<T>, OnceError<E>>) -> Observed {
    match ended {
        Ok(_) => Observed::Repeated,
        Err(OnceError::InProgress { .. }) => Observed::InProgress,
        Err(OnceError::Store(_)) => Observed::StoreFailed,
        Err(_) => Observed::Refused,
    }
}

/// What a record in the way means for a call.
fn repeat<T: DeserializeOwned, E>(
    settings: &Settings,
    key: &Key,
    record: Record,
    now: Timestamp,
) -> Result<Completed<T>, OnceError<E>> {
    if settings.validate.is_some() && record.validation.as_deref() != key.validation() {
        return Err(OnceError::PayloadMismatch);
    }
    match record.status {
        Status::InProgress
            if settings.on_unknown == OnUnknown::DeadLetter && record.is_abandoned(now) =>
        {
            let owner = record.owner.unwrap_or_else(|| "unknown".to_owned());
            Err(OnceError::OutcomeUnknown { owner })
        }
        Status::InProgress => Err(OnceError::InProgress {
            left: record.time_left(now),
        }),
        Status::ResultNotStored => Err(OnceError::ResultNotStored {
            reason: record.not_stored.unwrap_or_default(),
        }),
        // Powertools stores nothing for a function that returns nothing. Owners with a token always store something.
        Status::Completed if record.result.is_none() && record.owner.is_some() => {
            Err(OnceError::ResultNotStored {
                reason: "the record has none".to_owned(),
            })
        }
        Status::Completed => {
            let text = record.result.as_deref().unwrap_or("null");
            let result = serde_json::from_str(text).map_err(OnceError::Result)?;
            Ok(Completed {
                result,
                repeated: true,
                recorded: true,
            })
        }
    }
}

#[cfg(test)]
#[path = "once_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "late_tests.rs"]
mod late_tests;
