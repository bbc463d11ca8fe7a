//! How fast a policy answers. A quick one is evaluated on the thread that asks, which has other work: handing a failure to another thread and the decision back would take longer than the decision.
//!
//! A policy can't hold up that thread: its fuel and its calls are limited to what a quick answer needs, and an evaluation that does not succeed within these limits is repeated elsewhere, with the limits of the sandbox. Policies are deterministic and their instances fresh, so that nobody can tell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits::Limits;

/// A policy whose last answer took longer is not quick.
const QUICK: Duration = Duration::from_micros(200);

/// The fuel of a quick answer. A unit takes about a nanosecond.
const FUEL: u64 = 200_000;

/// The bytes that the calls of a quick answer may move.
const PAYLOAD: usize = 256 << 10;

/// The size of the largest payload that a quick answer may parse.
const LARGEST: usize = 64 << 10;

/// The pace of a policy's answers.
#[derive(Debug, Default)]
pub(super) struct Pace {
    is_quick: AtomicBool,
}

impl Pace {
    /// Whether the next answer, to a failure with a payload of this size, is expected to be quick.
    pub(super) fn is_quick(&self, payload: usize) -> bool {
        payload <= LARGEST && self.is_quick.load(Ordering::Relaxed)
    }

    /// Notes how long an evaluation took; `None` if it did not answer.
    pub(super) fn note(&self, took: Option<Duration>) {
        let is_quick = took.is_some_and(|took| took <= QUICK);
        if is_quick != self.is_quick.load(Ordering::Relaxed) {
            self.is_quick.store(is_quick, Ordering::Relaxed);
        }
    }
}

/// The limits within which a quick answer comes.
pub(super) fn quick(limits: Limits) -> Limits {
    Limits {
        fuel: limits.fuel.min(FUEL),
        payload: limits.payload.min(PAYLOAD),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backstop_core::examples::ordinary_failure;
    use backstop_core::settings::Settings;

    use super::*;
    use crate::{Component, Part, Payload, Policy, Sandbox, builtin};

    /// A built-in policy whose last answer was quick, whatever this machine is busy with.
    fn quick_policy(sandbox: &Sandbox, settings: Settings) -> Policy {
        let file = builtin::bytes("full-jitter").unwrap();
        let component = Component::load(sandbox, "full-jitter", file).unwrap();
        let policy = Policy::single(
            sandbox,
            Part {
                component,
                settings,
            },
        );
        policy.pace.note(Some(Duration::ZERO));
        policy
    }

    fn is_quick(policy: &Policy) -> bool {
        policy.pace.is_quick(0)
    }

    #[test]
    fn a_quick_answer_is_the_one_that_the_policy_gives_elsewhere() {
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let policy = quick_policy(&sandbox, Settings::default());
        let (failure, payload) = (ordinary_failure(), Arc::new(Payload::new("{}")));
        let quick = policy.evaluate_quickly(&failure, &payload).unwrap();
        let elsewhere = policy.evaluate(&failure, &payload);
        assert_eq!(quick.answer.unwrap(), elsewhere.answer.unwrap());
        assert_eq!(
            (quick.fuel, quick.memory),
            (elsewhere.fuel, elsewhere.memory)
        );
    }

    #[test]
    fn a_policy_that_needs_more_than_a_quick_answer_is_evaluated_elsewhere() {
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let codes: Vec<_> = (0..500).map(|number| format!("Code{number}")).collect();
        let settings = [("permanent", codes.join(","))].into_iter().collect();
        let policy = quick_policy(&sandbox, settings);
        let (failure, payload) = (ordinary_failure(), Arc::default());
        assert!(policy.evaluate_quickly(&failure, &payload).is_none());
        assert!(!is_quick(&policy));
        let elsewhere = policy.evaluate(&failure, &payload);
        elsewhere.answer.unwrap();
        assert!(elsewhere.fuel > FUEL, "{}", elsewhere.fuel);
    }

    #[test]
    fn a_policy_is_quick_as_long_as_its_last_answer_was() {
        let pace = Pace::default();
        assert!(!pace.is_quick(0), "nothing is known yet");
        for (took, expected) in [
            (Some(QUICK), true),
            (Some(QUICK * 2), false),
            (Some(QUICK), true),
            (None, false),
        ] {
            pace.note(took);
            assert_eq!(pace.is_quick(LARGEST), expected);
            assert!(!pace.is_quick(LARGEST + 1));
        }
    }

    #[test]
    fn a_quick_answer_waits_for_no_place_among_the_decisions() {
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let sandbox = sandbox.deciding_at_once(1);
        let policy = quick_policy(&sandbox, Settings::default());
        let (failure, payload) = (ordinary_failure(), Arc::default());
        let taken = sandbox.slot();
        assert!(policy.evaluate_quickly(&failure, &payload).is_none());
        drop(taken);
        assert!(policy.evaluate_quickly(&failure, &payload).is_some());
    }
}
