//! The circuit breaker that retriers share: while what they call is down, their calls fail at once.
//!
//! A retry budget bounds the retries of many calls; a breaker stops their first attempts too. It opens when nothing has succeeded for some seconds and many attempts have failed, lets one probe at a time through after growing pauses, and lets the attempts in flight grow again after a probe that succeeds.
//!
//! # What counts
//!
//! - A **success**, and a value that [`retry_if_ok`](crate::Run::retry_if_ok) does not take: the other side has answered.
//! - A **failure** that the policy calls transient or throttled. A timeout of an attempt is one, so set [`attempt_timeout`](crate::Run::attempt_timeout) if what you call may hang.
//! - A failure of which the policy says that what you call is down, whatever its class: it opens the breaker at once, for as long as the policy says, up to [`longest_retry_after`](BreakerSettings::longest_retry_after). A policy in Rust says it with [`Answer::down_for`](crate::decision::Answer::down_for), a WebAssembly policy with the interface `outage`.
//! - Nothing else: a permanent error, a class of the policy's own, and an attempt that the deadline or the program cut short prove nothing.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use backstop_core::breaker::{self, Outcome, Permit, Refused, State, Status};
use backstop_core::lock::lock;
use metrics::{Counter, Gauge};

use crate::refusal::Refusal;
use crate::telemetry;

pub use backstop_core::breaker::BreakerSettings;

/// A circuit breaker, shared by all of its clones. Give each dependency its own. See the [rules](crate::breaker).
///
/// ```
/// use std::time::Duration;
///
/// use backstop_retry::{Breaker, BreakerSettings, Error, Retrier, RetryError, TestClock};
///
/// let settings = BreakerSettings::default().minimum(3).shortest_outage(Duration::ZERO);
/// let breaker = Breaker::new("payments", settings);
/// let clock = TestClock::new();
/// let retrier = Retrier::builder().clock(clock.clone()).breaker(&breaker).build()?;
///
/// // Three attempts.
/// let down = || async { Err::<(), _>(Error::new("HTTP 503", "down")) };
/// clock.block_on(retrier.run(|_| down())).unwrap_err();
/// let error = clock.block_on(retrier.run(|_| down())).unwrap_err();
/// assert!(matches!(error, RetryError::BreakerOpen(_)));
/// assert_eq!(error.ended().refused_by(), Some("payments"));
/// assert_eq!(error.attempts(), 0);
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Breaker(Arc<Shared>);

struct Shared {
    name: Arc<str>,
    breaker: Mutex<breaker::Breaker>,
    open: Gauge,
    refusals: Counter,
}

impl Breaker {
    /// A closed breaker with these numbers. `name` is the label of its metrics.
    pub fn new(name: &str, settings: BreakerSettings) -> Self {
        let name: Arc<str> = name.into();
        let open = telemetry::breaker_open(&name);
        open.set(0);
        Self(Arc::new(Shared {
            breaker: Mutex::new(breaker::Breaker::new(settings)),
            open,
            refusals: telemetry::breaker_refusals(&name),
            name,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its state, since when, and what it counts.
    pub fn status(&self) -> Status {
        lock(&self.0.breaker).status()
    }

    /// Asks for an attempt.
    pub(crate) fn enter(&self, now: Instant) -> Result<Pass, Refusal> {
        self.pass(now).map_err(|refused| match refused {
            Refused::Open { until } => self.refuse(Some(until), now),
            Refused::Probing | Refused::Full { .. } => self.refuse(None, now),
        })
    }

    /// A pass for an attempt that nothing can refuse any more, if its outcome tells anything.
    #[cfg(feature = "tower")]
    pub(crate) fn pass_for_made(&self, now: Instant) -> Option<Pass> {
        self.pass(now).ok()
    }

    fn pass(&self, now: Instant) -> Result<Pass, Refused> {
        let permit = lock(&self.0.breaker).enter(now)?;
        Ok(Pass {
            breaker: self.clone(),
            permit: Some(permit),
        })
    }

    /// Refuses an attempt at a later time at which the breaker is still open for sure.
    pub(crate) fn refuses_at(&self, time: Instant, now: Instant) -> Option<Refusal> {
        let state = lock(&self.0.breaker).state();
        match state {
            State::Open { until } if time < until => Some(self.refuse(Some(until), now)),
            State::Open { .. } | State::Closed | State::Probing | State::Growing { .. } => None,
        }
    }

    fn refuse(&self, next_probe: Option<Instant>, now: Instant) -> Refusal {
        self.0.refusals.increment(1);
        Refusal {
            by: Arc::clone(&self.0.name),
            next_probe: next_probe.map(|it| it.saturating_duration_since(now)),
        }
    }

    fn leave(&self, permit: Permit, outcome: Outcome) {
        let mut breaker = lock(&self.0.breaker);
        let Some(state) = breaker.leave(permit, outcome) else {
            return;
        };
        let is_open = matches!(state, State::Open { .. });
        self.0.open.set(u8::from(is_open));
        let is_first = breaker.status().pauses == 1;
        drop(breaker);
        let name = &*self.0.name;
        match state {
            // Not a probe that proved nothing, or failed.
            State::Open { .. } if is_first && outcome != Outcome::Neither => {
                tracing::warn!(breaker = name, "the breaker is open: attempts are refused");
            }
            State::Closed => tracing::info!(breaker = name, "the breaker is closed again"),
            State::Open { .. } | State::Probing | State::Growing { .. } => {}
        }
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("name", &self.0.name)
            .field("status", &self.status())
            .finish()
    }
}

/// The right to one attempt. Dropped, it says that the attempt proved nothing.
pub(crate) struct Pass {
    breaker: Breaker,
    /// `None` once it was given back.
    permit: Option<Permit>,
}

impl Pass {
    pub(crate) fn succeeded(mut self, at: Instant) {
        self.leave(Outcome::Succeeded { at });
    }

    /// The attempt has ended like this.
    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            self.breaker.leave(permit, outcome);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.leave(Outcome::Neither);
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
