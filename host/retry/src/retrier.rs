//! The retrier, and how it decides about a failed attempt.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backstop_core::call::{Follows, Guards, Limits};
use backstop_core::decision::{Action, DecidedBy, ErrorClass};
use backstop_core::failure::{Error, Failure};
use backstop_time::{Clock, Deadline};

use crate::breaker::Breaker;
use crate::budget::{Budget, Reservation};
use crate::bulkhead::Bulkhead;
use crate::decider::{Decider, Evaluation};
use crate::error::End;
use crate::event::{Evaluated, Event, Observer};
use crate::refusal::Refusal;
use crate::remembered::Remembered;
use crate::telemetry::Metrics;

pub use backstop_core::call::FALLBACK_ATTEMPTS;

/// Runs functions and retries them as its policy decides. Cheap to clone; one for each dependency is enough for a program.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_retry::{FullJitter, Retrier};
///
/// # async fn read() -> Result<String, std::io::Error> { Ok(String::new()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let retrier = Retrier::builder()
///     .name("articles")
///     .policy(FullJitter::default().base(Duration::from_millis(50)).max_attempts(8))
///     .build()?;
///
/// let text = retrier.run(|_attempt| read()).deadline(Duration::from_secs(2)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Retrier(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) policy: Decider,
    pub(crate) options: CallOptions,
    pub(crate) budget: Option<Budget>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) metrics: Metrics,
}

/// What one call may set for itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Option<Deadline>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) min_attempt_time: Duration,
    pub(crate) interrupt_at_deadline: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            attempt_timeout: None,
            min_attempt_time: Duration::ZERO,
            interrupt_at_deadline: true,
        }
    }
}

/// The ids of calls that have none of their own: a seed, and a number.
pub(crate) struct Ids {
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            next: AtomicU64::new(1),
        }
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{number}", self.seed)
    }
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another attempt, at this time.
    Retry(Instant),
    /// The end, with this much time left.
    End(End, Option<Duration>),
}

impl Retrier {
    /// Its name, the label of its metrics.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its retry budget.
    pub fn budget(&self) -> Option<&Budget> {
        self.0.budget.as_ref()
    }

    /// Its circuit breaker.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.0.breaker.as_ref()
    }

    /// Its bulkhead.
    pub fn bulkhead(&self) -> Option<&Bulkhead> {
        self.0.bulkhead.as_ref()
    }

    /// The policy with its versions, if it is a WebAssembly one: its status, and roll-backs.
    #[cfg(feature = "wasm")]
    pub fn live_policy(&self) -> Option<&Arc<backstop_versions::LivePolicy>> {
        self.0.policy.live()
    }
}

backstop_core::shown!(Retrier, retrier =>
    name = retrier.0.name, policy = retrier.0.policy, budget = retrier.0.budget
);

impl Inner {
    /// The failed attempt as a policy receives it, within the bounds of the contract.
    pub(crate) fn failure(
        &self,
        remembered: &mut Remembered,
        attempt: NonZeroU32,
        error: Error,
        attributes: &[(String, String)],
    ) -> Failure {
        let now = (self.clock.now(), self.clock.time());
        remembered.failure(&self.limits, attempt, error, attributes, now)
    }

    /// What follows a failed attempt, by the rules of [`Failing`](backstop_core::call::Failing). The caller [reports](Self::report) it.
    pub(crate) fn conclude(
        &self,
        remembered: &mut Remembered,
        failure: &Failure,
        evaluation: Evaluation,
        deadline: Option<Instant>,
        min_attempt_time: Duration,
    ) -> (Evaluated, Step) {
        let Evaluation {
            answer,
            policy,
            log,
            fuel,
            took,
            is_by_call,
        } = evaluation;
        let decision = self.limits.decide(failure, answer, is_by_call);
        self.metrics.failed(&decision.class);
        let now = self.clock.now();
        let time_left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        remembered.reservation = None;
        if let Some(pass) = remembered.pass.take() {
            pass.ended(remembered.outcome(failure, &decision));
        }
        let room = (deadline, min_attempt_time);
        let step = match remembered.follows(self, &self.limits, &decision, room, now) {
            Follows::Retry {
                at,
                waits,
                reservation,
            } => {
                remembered.reservation = reservation;
                self.metrics.delays.record(waits);
                Step::Retry(at)
            }
            Follows::End(end, refusal) => {
                remembered.refusal = refusal;
                Step::End(end, time_left)
            }
        };
        let evaluated = Evaluated {
            decision,
            policy,
            log,
            fuel,
            took,
        };
        (evaluated, step)
    }

    /// Logs a failed attempt and what follows, and tells the observers.
    pub(crate) fn report(&self, failure: &Failure, evaluated: &Evaluated, step: Step) {
        let attempt = failure.attempt.get();
        let code = &failure.error.code;
        if let DecidedBy::Fallback(cause) = &evaluated.decision.decided_by {
            tracing::warn!(
                retrier = &*self.name,
                id = failure.message_id,
                attempt,
                "the policy {}: the fallback decides",
                cause.text.trim_start_matches("the policy ")
            );
        }
        match step {
            Step::Retry(_) => {
                let Action::Retry { delay } = evaluated.decision.action else {
                    return;
                };
                tracing::debug!(
                    retrier = &*self.name,
                    id = failure.message_id,
                    attempt,
                    code,
                    "delay-ms" = delay.0,
                    "retrying"
                );
                self.tell(|| Event::Retrying {
                    retrier: &self.name,
                    failure,
                    evaluated,
                    delay: self.limits.wait(delay),
                    budget_left: self.budget_left(),
                });
            }
            Step::End(end, time_left) => {
                self.metrics.ended(end);
                tracing::debug!(retrier = &*self.name, id = failure.message_id, attempt, code, %end, "not retrying");
                self.tell(|| Event::Ended {
                    retrier: &self.name,
                    end,
                    attempts: attempt,
                    failed: Some((failure, evaluated)),
                    budget_left: self.budget_left(),
                    time_left,
                });
            }
        }
    }

    /// The call ended before or during an attempt, so that there is nothing to decide.
    pub(crate) fn ended_without_failure(
        &self,
        end: End,
        attempts: u32,
        time_left: Option<Duration>,
    ) {
        self.metrics.ended(end);
        tracing::debug!(
            retrier = &*self.name,
            attempts,
            %end,
            "the call ended before or during an attempt"
        );
        self.tell(|| Event::Ended {
            retrier: &self.name,
            end,
            attempts,
            failed: None,
            budget_left: self.budget_left(),
            time_left,
        });
    }

    /// The call succeeded: at once, or after the failures that it remembers.
    pub(crate) fn succeeded(&self, remembered: Option<Remembered>, attempts: u32) {
        match (remembered, &self.budget) {
            (None, Some(budget)) => budget.first_succeeded(),
            (Some(remembered), _) => {
                if let Some(reservation) = remembered.reservation {
                    reservation.succeeded();
                }
            }
            (None, None) => {}
        }
        self.metrics.succeeded.increment(1);
        self.tell(|| Event::Succeeded {
            retrier: &self.name,
            attempts,
        });
    }

    fn budget_left(&self) -> Option<f64> {
        self.budget.as_ref().map(Budget::left)
    }

    fn tell<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if self.observers.is_empty() {
            return;
        }
        let event = event();
        for observer in &self.observers {
            observer.observe(&event);
        }
    }
}

impl Guards for Inner {
    type Reservation = Reservation;
    type Refusal = Refusal;

    fn refuses_at(&self, time: Instant, now: Instant) -> Option<Refusal> {
        self.breaker.as_ref()?.refuses_at(time, now)
    }

    fn reserve(&self, class: &ErrorClass, now: Instant) -> Option<Option<Reservation>> {
        match &self.budget {
            None => Some(None),
            Some(budget) => budget.take(class, now).map(Some),
        }
    }
}
