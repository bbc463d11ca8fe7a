//! The steps of a call: an attempt begins, fails or succeeds, a decision follows, the deadline comes.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use backstop_core::call::out_of_time;
use backstop_core::failure::{Error, Failure};

use super::{Condition, Cut, Failing, Run, State, Timer};
use crate::attempt::Attempt;
use crate::decider::{Evaluating, Evaluation};
use crate::describe::Describer;
use crate::error::{AsError, End, RetryError, State as Ended};
use crate::remembered::Remembered;
use crate::retrier::Step;

impl<F, Fut, T, E, D, C> Run<'_, F, Fut, T, E, D, C>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    D: Describer<E>,
    C: Condition<T, E>,
{
    /// Begins the next attempt.
    pub(super) fn attempt(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.attempts = this.attempts.saturating_add(1);
        let number = NonZeroU32::new(*this.attempts).unwrap_or(NonZeroU32::MIN);
        if let Some(failing) = this.failing
            && let Some(reservation) = &mut failing.remembered.reservation
        {
            reservation.send();
        }
        this.retrier.metrics.attempts.increment(1);
        let span = tracing::debug_span!("attempt", retrier = &*this.retrier.name, attempt = number);
        let attempt = Attempt {
            number,
            deadline: *this.deadline,
        };
        let future = span.in_scope(|| (this.function)(attempt));
        this.state.set(State::Attempting { future, span });
    }

    /// Waits until the attempt, or the evaluation after it, is cut short, if it ever is.
    pub(super) fn poll_cut(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        timeout: Option<Duration>,
    ) -> Poll<Cut> {
        let this = self.project();
        let clock = &this.retrier.clock;
        if this.timer.is_none() {
            let deadline = this.deadline.filter(|_| this.options.interrupt_at_deadline);
            let timeout = timeout.and_then(|timeout| {
                let at = clock.now().checked_add(timeout)?;
                Some((at, Cut::AttemptTimeout(timeout)))
            });
            let deadline = deadline.map(|at| (at, Cut::Deadline));
            let first = match (deadline, timeout) {
                (Some(deadline), Some(timeout)) if timeout.0 < deadline.0 => Some(timeout),
                (deadline, timeout) => deadline.or(timeout),
            };
            *this.timer = first.map(|(at, cut)| Timer {
                cut,
                at,
                sleep: clock.sleep_until(at),
            });
        }
        let Some(Timer { cut, at, sleep }) = this.timer else {
            return Poll::Pending;
        };
        // An attempt that uses up what tokio lets a task do in one poll leaves nothing for a timer, which then never ends.
        if sleep.as_mut().poll(context).is_ready() || clock.now() >= *at {
            Poll::Ready(*cut)
        } else {
            Poll::Pending
        }
    }

    /// The attempt returned an error.
    pub(super) fn returned(self: Pin<&mut Self>, error: E) -> Result<(), RetryError<E>> {
        let description = self.describer.describe(&error);
        let is_refused = !self.condition.retries_error(&error);
        self.failed(description, Some(error), is_refused)
    }

    /// The attempt failed: with the function's own error, or with none if it was cut short. Either waits for the next attempt, or ends the call.
    pub(super) fn failed(
        mut self: Pin<&mut Self>,
        description: Error,
        error: Option<E>,
        is_refused: bool,
    ) -> Result<(), RetryError<E>> {
        let mut this = self.as_mut().project();
        let retrier = *this.retrier;
        *this.timer = None;
        // The attempt's future must not live on while the call waits.
        this.state.set(State::Done);
        let pass = this.admission.take().and_then(|it| it.pass);
        let attempt = NonZeroU32::new(*this.attempts).unwrap_or(NonZeroU32::MIN);
        let failing = this.failing.get_or_insert_with(|| {
            let id = this.id.take().unwrap_or_else(|| retrier.ids.next());
            Box::new(Failing {
                remembered: Remembered::new(id, retrier.clock.now()),
                error: None,
            })
        });
        if error.is_some() {
            failing.error = error;
        }
        let remembered = &mut failing.remembered;
        remembered.pass = pass;
        let failure = retrier.failure(remembered, attempt, description, this.attributes);
        if is_refused {
            let evaluation = Evaluation::refused_by_call(&failure);
            return self.decided(&failure, evaluation);
        }
        match retrier.policy.evaluate(failure, &*retrier.clock) {
            Evaluating::Done(failure, evaluation) => self.decided(&failure, evaluation),
            #[cfg(feature = "wasm")]
            Evaluating::UnderWay(evaluation) => {
                this.state.set(State::Deciding { evaluation });
                Ok(())
            }
        }
    }

    /// The policy was evaluated for the failed attempt.
    pub(super) fn decided(
        self: Pin<&mut Self>,
        failure: &Failure,
        evaluation: Evaluation,
    ) -> Result<(), RetryError<E>> {
        let mut this = self.project();
        let retrier = *this.retrier;
        *this.timer = None;
        this.state.set(State::Done);
        let Some(failing) = this.failing else {
            return Ok(());
        };
        let remembered = &mut failing.remembered;
        let (evaluated, step) = retrier.conclude(
            remembered,
            failure,
            evaluation,
            *this.deadline,
            this.options.min_attempt_time,
        );
        // Before the observers, which may panic: the end is counted once.
        this.under_way.has_begun = matches!(step, Step::Retry(_));
        retrier.report(failure, &evaluated, step);
        remembered.decision = Some(evaluated.decision);
        match step {
            Step::Retry(at) => {
                let sleep = retrier.clock.sleep_until(at);
                this.state.set(State::Waiting {
                    sleep,
                    is_new: true,
                });
                Ok(())
            }
            Step::End(end, time_left) => {
                let state = ended(this.failing.take(), D::as_error, *this.attempts, time_left);
                Err(RetryError::new(end, state))
            }
        }
    }

    /// The function succeeded.
    pub(super) fn succeeded(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.timer = None;
        this.state.set(State::Done);
        if let Some(admission) = this.admission.take()
            && let Some(pass) = admission.pass
        {
            pass.succeeded(this.retrier.clock.now());
        }
        this.under_way.has_begun = false;
        let remembered = this.failing.take().map(|failing| failing.remembered);
        this.retrier.succeeded(remembered, *this.attempts);
    }

    /// The deadline came during the attempt.
    pub(super) fn interrupted(mut self: Pin<&mut Self>, now: Instant) -> RetryError<E> {
        let this = self.as_mut().project();
        let failing = this.failing.get_or_insert_with(|| {
            Box::new(Failing {
                remembered: Remembered::new(String::new(), now),
                error: None,
            })
        });
        failing.remembered.description = out_of_time();
        self.out_of_time(now)
    }

    /// The deadline ends the call before or during an attempt.
    pub(super) fn out_of_time(self: Pin<&mut Self>, now: Instant) -> RetryError<E> {
        let mut this = self.project();
        *this.timer = None;
        this.state.set(State::Done);
        *this.admission = None;
        this.under_way.has_begun = false;
        let time_left = this
            .deadline
            .map(|deadline| deadline.saturating_duration_since(now));
        // Before the event: it gives back what a retry took that was not sent.
        let state = ended(this.failing.take(), D::as_error, *this.attempts, time_left);
        this.retrier
            .ended_without_failure(End::DeadlineExceeded, *this.attempts, time_left);
        RetryError::new(End::DeadlineExceeded, state)
    }
}

/// The state of a call that ends now.
pub(super) fn ended<E>(
    failing: Option<Box<Failing<E>>>,
    as_error: AsError<E>,
    attempts: u32,
    time_left: Option<Duration>,
) -> Ended<E> {
    let (remembered, error) = match failing {
        Some(failing) => (Some(failing.remembered), failing.error),
        None => (None, None),
    };
    let (description, decision, refusal) = match remembered.map(Remembered::into_parts) {
        Some((failing, refusal)) => (Some(failing.description), failing.decision, refusal),
        None => (None, None, None),
    };
    Ended {
        attempts,
        error,
        as_error,
        description,
        decision,
        refusal,
        time_left,
    }
}
