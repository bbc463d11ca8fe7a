//! Whether the next attempt may begin now: a place of the bulkhead, and a pass of the breaker.

use std::pin::Pin;
use std::time::Instant;

use backstop_core::call::has_room;

use super::steps::ended;
use super::{Condition, Cut, Run, State, Timer};
use crate::attempt::Attempt;
use crate::breaker::Pass;
use crate::bulkhead::Place;
use crate::describe::Describer;
use crate::error::{End, RetryError};
use crate::refusal::Refusal;

/// What an attempt holds while it is under way.
pub(super) struct Admission {
    _place: Option<Place>,
    pub(super) pass: Option<Pass>,
}

impl<F, Fut, T, E, D, C> Run<'_, F, Fut, T, E, D, C>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    D: Describer<E>,
    C: Condition<T, E>,
{
    /// Begins the next attempt, or waits for a place first.
    pub(super) fn enter(mut self: Pin<&mut Self>) -> Result<(), RetryError<E>> {
        let retrier = *self.as_mut().project().retrier;
        if retrier.breaker.is_some() || retrier.bulkhead.is_some() {
            return self.enter_if_admitted();
        }
        self.attempt();
        Ok(())
    }

    /// Not inlined, so that calls without breaker and bulkhead are as fast as they were.
    #[inline(never)]
    fn enter_if_admitted(mut self: Pin<&mut Self>) -> Result<(), RetryError<E>> {
        let mut this = self.as_mut().project();
        let retrier = *this.retrier;
        let Some(bulkhead) = &retrier.bulkhead else {
            return self.enter_with(None);
        };
        let wait = match bulkhead.enter() {
            Ok(place) => return self.enter_with(Some(place)),
            Err(Ok(wait)) => wait,
            Err(Err(refusal)) => return Err(self.refused(End::BulkheadFull, refusal)),
        };
        let now = retrier.clock.now();
        if let Some(breaker) = &retrier.breaker
            && let Some(refusal) = breaker.refuses_at(now, now)
        {
            return Err(self.refused(End::BreakerOpen, refusal));
        }
        // Nobody waits for a place after the deadline, also not for an attempt that may.
        *this.timer = this.deadline.map(|at| Timer {
            cut: Cut::Deadline,
            at,
            sleep: retrier.clock.sleep_until(at),
        });
        this.state.set(State::Entering { wait });
        Ok(())
    }

    /// Begins the next attempt, which has waited for this place.
    pub(super) fn entered(mut self: Pin<&mut Self>, place: Place) -> Result<(), RetryError<E>> {
        let this = self.as_mut().project();
        *this.timer = None;
        let now = this.retrier.clock.now();
        if !has_room(now, *this.deadline, this.options.min_attempt_time) {
            return Err(self.out_of_time(now));
        }
        self.enter_with(Some(place))
    }

    fn enter_with(mut self: Pin<&mut Self>, place: Option<Place>) -> Result<(), RetryError<E>> {
        let this = self.as_mut().project();
        let retrier = *this.retrier;
        let breaker = retrier.breaker.as_ref();
        let pass = breaker.map(|breaker| breaker.enter(retrier.clock.now()));
        let pass = match pass.transpose() {
            Ok(pass) => pass,
            Err(refusal) => return Err(self.refused(End::BreakerOpen, refusal)),
        };
        if place.is_some() || pass.is_some() {
            *this.admission = Some(Box::new(Admission {
                _place: place,
                pass,
            }));
        }
        self.attempt();
        Ok(())
    }

    /// The attempt may not begin, which ends the call.
    fn refused(self: Pin<&mut Self>, end: End, refusal: Refusal) -> RetryError<E> {
        let mut this = self.project();
        this.state.set(State::Done);
        this.under_way.has_begun = false;
        let clock = &this.retrier.clock;
        let left = |deadline: Instant| deadline.saturating_duration_since(clock.now());
        let time_left = this.deadline.map(left);
        // Before the event: it gives back what a retry took that was not sent.
        let mut state = ended(this.failing.take(), D::as_error, *this.attempts, time_left);
        state.refusal = Some(refusal);
        this.retrier
            .ended_without_failure(end, *this.attempts, time_left);
        RetryError::new(end, state)
    }
}
