//! One call as a machine without I/O: JavaScript reports what happened and when, and the machine returns what is next. It follows the rules of `backstop_core::call`, in the order in which `backstop-retry` does; a test drives both and compares them.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use backstop_core::breaker::{Outcome, Permit};
use backstop_core::budget::Taken;
use backstop_core::call::{self, End, Ended, Failing, Follows, has_room};
use backstop_core::decision::{Answer, FallbackCause, FallbackKind};
use backstop_core::failure::{Error, Failure};
use backstop_core::policy::Profile;

use crate::retrier::{Policy, Refusal, Retrier};
use crate::step::{Decided, Now, Options, Step};

/// What a call is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Beginning,
    Entering,
    Attempting,
    Evaluating,
    Waiting,
    Done,
}

/// A call.
pub(crate) struct Call {
    pub(crate) retrier: Rc<Retrier>,
    options: Options,
    number: usize,
    doing: Doing,
    deadline: Option<Instant>,
    pub(crate) attempts: u32,
    failing: Option<Failing>,
    /// What the next attempt took out of the budget, and whether it was sent.
    taken: Option<(Taken, bool)>,
    permit: Option<Permit>,
    has_place: bool,
    /// What cuts the attempt short, unless it is the deadline.
    timeout: Option<Duration>,
    /// The time until the deadline, at the beginning of the attempt.
    had: Option<Duration>,
    /// When the next attempt begins.
    next: Option<Instant>,
    refusal: Option<Refusal>,
    time_left: Option<Duration>,
    /// The failure that is evaluated.
    evaluating: Option<(Failure, bool)>,
    /// The last failure that was decided about, for observers.
    pub(crate) decided: Option<Decided>,
}

impl Call {
    /// A call with this number. It has not begun.
    pub(crate) fn new(retrier: Rc<Retrier>, number: usize, options: Options) -> Self {
        Self {
            retrier,
            options,
            number,
            doing: Doing::Beginning,
            deadline: None,
            attempts: 0,
            failing: None,
            taken: None,
            permit: None,
            has_place: false,
            timeout: None,
            had: None,
            next: None,
            refusal: None,
            time_left: None,
            evaluating: None,
            decided: None,
        }
    }

    /// The state of the call at its end.
    pub(crate) fn ended(&self, end: End) -> Ended<'_> {
        Ended {
            end,
            attempts: self.attempts,
            description: self.failing.as_ref().map(|it| &it.description),
            decision: self.failing.as_ref().and_then(|it| it.decision.as_ref()),
            refused_by: self.refusal.as_ref().map(|it| &*it.by),
            next_probe: self.refusal.as_ref().and_then(|it| it.next_probe),
            time_left: self.time_left,
        }
    }

    /// The tokens that are left in the retry budget.
    pub(crate) fn budget_left(&self) -> Option<f64> {
        self.retrier.budget.as_ref().map(|it| it.left())
    }

    /// The call begins, or its wait is over, or it has got a place.
    pub(crate) fn go_on(&mut self, now: Now) -> Step {
        match self.doing {
            Doing::Beginning => {
                let deadline = self.options.deadline;
                self.deadline = deadline.and_then(|it| now.instant.checked_add(it));
            }
            Doing::Entering => self.has_place = true,
            // A timer may be early.
            Doing::Waiting => {
                if let Some(next) = self.next.filter(|it| *it > now.instant) {
                    return Step::Wait(next.saturating_duration_since(now.instant));
                }
            }
            Doing::Attempting | Doing::Evaluating => return self.cut(now),
            Doing::Done => return Step::Ended(End::GaveUp),
        }
        let is_new = self.doing == Doing::Beginning;
        let may_be_late = self.deadline.is_some() || is_new;
        if may_be_late && !has_room(now.instant, self.deadline, self.options.min_attempt_time) {
            return self.out_of_time(now);
        }
        self.enter(now)
    }

    /// Begins the next attempt, or waits for a place first.
    fn enter(&mut self, now: Now) -> Step {
        let retrier = Rc::clone(&self.retrier);
        if let Some(bulkhead) = retrier.bulkhead.as_ref().filter(|_| !self.has_place) {
            self.has_place = bulkhead.enter();
            if !self.has_place && !retrier.waits {
                let by = Rc::clone(&bulkhead.name);
                let refusal = Refusal {
                    by,
                    next_probe: None,
                };
                return self.refused(End::BulkheadFull, refusal, now);
            }
            if !self.has_place {
                let refuses = |it: &Rc<_>| -> Option<Refusal> {
                    crate::retrier::NamedBreaker::refuses_at(it, now.instant, now.instant)
                };
                if let Some(refusal) = retrier.breaker.as_ref().and_then(refuses) {
                    return self.refused(End::BreakerOpen, refusal, now);
                }
                bulkhead.waiting.borrow_mut().push_back(self.number);
                self.doing = Doing::Entering;
                // Nobody waits for a place after the deadline, also not for an attempt that may.
                let cut_after = self.left(now);
                return Step::Enter { cut_after };
            }
        }
        if let Some(breaker) = &retrier.breaker {
            match breaker.enter(now.instant) {
                Ok(permit) => self.permit = Some(permit),
                Err(refusal) => return self.refused(End::BreakerOpen, refusal, now),
            }
        }
        self.attempts = self.attempts.saturating_add(1);
        if let Some((_, is_sent)) = &mut self.taken {
            *is_sent = true;
        }
        self.doing = Doing::Attempting;
        self.had = self.left(now);
        let timeout = self.options.attempt_timeout;
        let deadline = self.had.filter(|_| !self.options.lets_end);
        // Of the two, the earlier one; of equal ones, the deadline.
        self.timeout = timeout.filter(|it| deadline.is_none_or(|deadline| *it < deadline));
        Step::Attempt {
            number: self.attempts,
            cut_after: self.timeout.or(deadline),
        }
    }

    /// The time that the attempt has until the deadline, when it begins.
    pub(crate) fn time_left_at_start(&self) -> Option<Duration> {
        self.had
    }

    fn left(&self, now: Now) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(now.instant))
    }

    /// The attempt has succeeded, with a value that the caller waits for or not.
    pub(crate) fn succeeded(&mut self, is_not_ready: bool, now: Now) -> Step {
        self.leave(Outcome::Succeeded { at: now.instant });
        if is_not_ready {
            return self.failed(call::not_ready(), false, now);
        }
        self.give_place_back();
        self.doing = Doing::Done;
        if let Some(budget) = &self.retrier.budget {
            match (&self.failing, self.taken.take()) {
                (None, _) => budget.first_succeeded(),
                (Some(_), Some((taken, _))) => budget.succeeded(taken),
                (Some(_), None) => {}
            }
        }
        Step::Succeeded
    }

    /// What is under way took too long.
    pub(crate) fn cut(&mut self, now: Now) -> Step {
        match (self.doing, self.timeout) {
            (Doing::Attempting, Some(timeout)) => self.failed(call::timed_out(timeout), false, now),
            (Doing::Attempting, None) => {
                let failing = self
                    .failing
                    .get_or_insert_with(|| Failing::new(String::new(), now.instant));
                failing.description = call::out_of_time();
                self.out_of_time(now)
            }
            _ => self.out_of_time(now),
        }
    }

    /// The attempt has failed. The call's own condition may refuse the error.
    #[inline(never)]
    pub(crate) fn failed(&mut self, error: Error, is_refused: bool, now: Now) -> Step {
        self.give_place_back();
        let attempt = NonZeroU32::new(self.attempts).unwrap_or(NonZeroU32::MIN);
        let failing = self.failing.get_or_insert_with(|| {
            let id = self
                .options
                .id
                .take()
                .unwrap_or_else(|| self.retrier.ids.next());
            Failing::new(id, now.instant)
        });
        let failure = failing.failure(
            &self.retrier.limits,
            attempt,
            error,
            &self.options.attributes,
            (now.instant, now.wall),
        );
        let answer = if is_refused {
            call::refused_by_call(&failure)
        } else if matches!(self.retrier.policy, Policy::Default) {
            Profile::Http.answer(&failure)
        } else {
            self.doing = Doing::Evaluating;
            self.evaluating = Some((failure.clone(), false));
            return Step::Evaluate {
                failure: Box::new(failure),
                cut_after: self.left(now).filter(|_| !self.options.lets_end),
            };
        };
        self.evaluating = Some((failure, is_refused));
        self.evaluated(Ok(answer), now)
    }

    /// The policy has answered, or is broken.
    pub(crate) fn evaluated(&mut self, answer: Result<Answer, FallbackCause>, now: Now) -> Step {
        let Some((failure, is_by_call)) = self.evaluating.take() else {
            return Step::Ended(End::GaveUp);
        };
        let answer = answer.and_then(|answer| {
            answer.validate().map_err(|invalid| {
                let text = format!("the policy answered {invalid}");
                FallbackCause::new(FallbackKind::InvalidAnswer, text)
            })
        });
        let retrier = Rc::clone(&self.retrier);
        let decision = retrier.limits.decide(&failure, answer, is_by_call);
        self.time_left = self.left(now);
        self.taken = None;
        let Some(mut failing) = self.failing.take() else {
            return Step::Ended(End::GaveUp);
        };
        self.leave(failing.outcome(&failure, &decision));
        let room = (self.deadline, self.options.min_attempt_time);
        let step = match failing.follows(&*retrier, &retrier.limits, &decision, room, now.instant) {
            Follows::Retry {
                at, reservation, ..
            } => {
                self.taken = reservation.map(|it| (it, false));
                self.next = Some(at);
                self.doing = Doing::Waiting;
                Step::Wait(at.saturating_duration_since(now.instant))
            }
            Follows::End(end, refusal) => {
                self.refusal = refusal;
                self.doing = Doing::Done;
                Step::Ended(end)
            }
        };
        failing.decision = Some(decision.clone());
        self.failing = Some(failing);
        self.decided = Some(Decided { failure, decision });
        step
    }

    /// The deadline ends the call before or during an attempt.
    #[inline(never)]
    fn out_of_time(&mut self, now: Now) -> Step {
        self.stop();
        self.time_left = self.left(now);
        Step::Ended(End::DeadlineExceeded)
    }

    /// The attempt may not begin, which ends the call.
    #[inline(never)]
    fn refused(&mut self, end: End, refusal: Refusal, now: Now) -> Step {
        self.stop();
        self.time_left = self.left(now);
        self.refusal = Some(refusal);
        Step::Ended(end)
    }

    /// Gives everything back that is not used. There is no decision about what comes now.
    #[inline(never)]
    fn stop(&mut self) {
        self.doing = Doing::Done;
        self.decided = None;
        self.give_place_back();
        self.leave(Outcome::Neither);
        if let (Some(budget), Some((taken, false))) = (&self.retrier.budget, self.taken.take()) {
            budget.give_back(taken);
        }
    }

    fn give_place_back(&mut self) {
        if let Some(bulkhead) = &self.retrier.bulkhead {
            bulkhead.forget(self.number);
            if std::mem::take(&mut self.has_place) {
                bulkhead.leave();
            }
        }
    }

    #[inline(never)]
    fn leave(&mut self, outcome: Outcome) {
        if let (Some(breaker), Some(permit)) = (&self.retrier.breaker, self.permit.take()) {
            breaker.breaker.borrow_mut().leave(permit, outcome);
        }
    }
}

/// A call that is dropped is cancelled.
impl Drop for Call {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
