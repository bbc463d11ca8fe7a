//! Work under a lease: the lease is renewed while the work runs, and the work stops when the lease ends.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::idempotency::{LEASE, OnUnknown};

use crate::call_time::CallTime;
use crate::error::LeaseEnd;
use crate::settings::Settings;
use crate::store::{Renewal, StoreError};

/// The shortest time between two renewals while the store does not answer.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The end of the year 9999, in seconds since 1970. Every library that reads records reads it as a time.
const NEVER: u64 = 253_402_300_799;

/// The lease of one owner.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) time: &'a CallTime<'a>,
    pub(crate) key: &'a str,
    pub(crate) owner: String,
    pub(crate) deadline: Option<Timestamp>,
    /// How long each renewal lasts.
    duration: Duration,
    until: AtomicU64,
}

impl<'a> Lease<'a> {
    /// The lease of a claim that is made now.
    pub(crate) fn new(
        settings: &'a Settings,
        time: &'a CallTime<'a>,
        key: &'a str,
        owner: String,
        deadline: Option<Timestamp>,
    ) -> Self {
        let now = time.now();
        let duration = match (settings.lease, deadline) {
            (Some(lease), _) => lease,
            (None, Some(deadline)) => deadline.since(now),
            (None, None) => LEASE,
        };
        let lease = Self {
            settings,
            time,
            key,
            owner,
            deadline,
            duration,
            until: AtomicU64::new(0),
        };
        lease.until.store(lease.end_from(now).0, Ordering::Relaxed);
        lease
    }

    /// When the lease ends.
    pub(crate) fn until(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::Relaxed))
    }

    /// When a record of work in progress that is written now, with a lease until this time, no longer counts, in seconds since 1970.
    ///
    /// If nobody may do the work again, never: a table with a time to live would delete the record of a crashed owner, and forget that the work may have been done.
    pub(crate) fn expires(&self, lease_until: Timestamp) -> u64 {
        if self.settings.on_unknown == OnUnknown::DeadLetter {
            return NEVER;
        }
        let from = self.time.now().max(lease_until);
        from.plus(self.settings.expires_after).0 / 1_000
    }

    /// Runs the work to its end, or to that of the lease.
    ///
    /// The clock is read before each step of the work: a process that was paused for longer than its lease takes no further step.
    pub(crate) async fn protect<F: Future>(&self, work: F) -> Result<F::Output, LeaseEnd> {
        let (mut work, mut keep) = (pin!(work), pin!(self.keep()));
        std::future::poll_fn(|context| {
            if self.time.now() >= self.until() {
                return Poll::Ready(Err(self.overdue()));
            }
            if let Poll::Ready(end) = keep.as_mut().poll(context) {
                return Poll::Ready(Err(end));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Renews the lease until that fails.
    async fn keep(&self) -> LeaseEnd {
        let time = self.time;
        let third = self.duration / 3;
        let mut next = time.now().plus(third);
        loop {
            let until = self.until();
            // The last lease ends with the call.
            let next_step = if Some(until) == self.deadline {
                until
            } else {
                next
            };
            time.sleep(next_step.min(until).since(time.now())).await;
            let now = time.now();
            if now >= until {
                return self.overdue();
            }
            if now < next_step {
                continue;
            }
            let lease_until = self.end_from(now);
            let renewal = Renewal {
                key: self.key,
                owner: &self.owner,
                lease_until,
                expires: self.expires(lease_until),
            };
            // A request without an answer must leave time for others.
            let answered_by = until.min(now.plus(self.duration / 6));
            let renewed = self.settings.store.renew(&renewal);
            match self.within(answered_by, renewed).await {
                Ok(true) => {
                    self.until.store(renewal.lease_until.0, Ordering::Relaxed);
                    next = now.plus(third);
                }
                Ok(false) => return LeaseEnd::TakenOver,
                Err(error) => {
                    tracing::warn!(key = self.key, %error, "an idempotency lease was not renewed");
                    next = time.now().plus((self.duration / 10).max(SHORTEST_RETRY));
                }
            }
        }
    }

    fn end_from(&self, now: Timestamp) -> Timestamp {
        let end = now.plus(self.duration);
        self.deadline.map_or(end, |deadline| end.min(deadline))
    }

    /// The answer of the store to one request, or an error at `end`.
    pub(crate) async fn within<T>(
        &self,
        end: Timestamp,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let time = self.time;
        let longest = self.settings.request_timeout;
        let mut end = time.sleep(end.since(time.now()).min(longest));
        let mut call = pin!(call);
        std::future::poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => end
                .as_mut()
                .poll(context)
                .map(|()| Err(StoreError::timeout())),
        })
        .await
    }

    /// Why the lease is over now.
    fn overdue(&self) -> LeaseEnd {
        if Some(self.until()) == self.deadline {
            LeaseEnd::Deadline
        } else {
            LeaseEnd::NotRenewed
        }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
