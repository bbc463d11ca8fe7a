//! Looks among generated failures for those that a policy does not stand, and makes the first of each kind as small as it gets.

use std::time::Duration;

use proptest::strategy::ValueTree;

use super::Plan;
use super::generate::{Case, Vocabulary, trees};
use crate::author::scenario::plain_failure;
use crate::clock;
use crate::decision::{Action, Answer};
use crate::failure::{Milliseconds, random};
use crate::policy::{Asked, Broken, Policy};

/// How many failures are generated, if there is time.
const MOST: u32 = 2_000;

/// How many are generated however slow the policy is.
const LEAST: u32 = 100;

/// How long failures are generated for.
const HUNTING: Duration = Duration::from_secs(3);

/// How often a policy is asked to make one failure smaller: a number and not a time, so that every machine finds the same.
const TRIES: u32 = 400;

/// Where it ends nevertheless: a policy that uses up its limits each time.
const SHRINKING: Duration = Duration::from_secs(20);

/// What is wrong with what a policy makes of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It stopped itself, or broke a rule of WebAssembly.
    Trap,
    /// It wanted more than it may have.
    Limit,
    /// An answer that nobody can mean.
    Nonsense,
    /// A delay that is too long, and longer than what the service asked for.
    Delay,
}

impl Fault {
    fn of(case: &Case, asked: &Asked, longest: Milliseconds) -> Option<Self> {
        match &asked.answer {
            Err(Broken::OutOfFuel(..) | Broken::OutOfTime(..) | Broken::OutOfBounds(..)) => {
                Some(Self::Limit)
            }
            Err(Broken::Senseless(_)) => Some(Self::Nonsense),
            Err(
                Broken::Trapped(..)
                | Broken::Settings(_)
                | Broken::NoSettings(_)
                | Broken::NotLoaded(_),
            ) => Some(Self::Trap),
            Ok(Answer {
                action: Action::Retry { delay },
                ..
            }) => {
                let asked_for = case.failure.error.retry_after.unwrap_or_default();
                (*delay > longest.max(asked_for)).then_some(Self::Delay)
            }
            Ok(Answer {
                action: Action::DeadLetter { .. } | Action::Discard { .. },
                ..
            }) => None,
        }
    }
}

/// A failure that the policy does not stand, as small as it gets.
#[derive(Debug)]
pub(super) struct Caught {
    pub(super) fault: Fault,
    /// Which of the generated failures it was made of, from 1.
    pub(super) number: u32,
    pub(super) case: Case,
    pub(super) asked: Asked,
}

/// What came of asking about generated failures.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    /// How many failures were generated.
    pub(super) cases: u32,
    /// The most fuel of one decision that ended.
    pub(super) fuel: u64,
    /// The most memory of one decision that ended, in bytes.
    pub(super) memory: usize,
    caught: Vec<Caught>,
}

impl Hunt {
    /// The failure of this kind, if there was one.
    pub(super) fn caught(&self, fault: Fault) -> Option<&Caught> {
        self.caught.iter().find(|caught| caught.fault == fault)
    }
}

pub(super) fn hunt(policy: &Policy, plan: &Plan<'_>, progress: &mut dyn FnMut(u32, u32)) -> Hunt {
    let started = clock::instant();
    let longest = plan.longest_delay;
    let ask = |case: &Case| policy.ask(&case.failure, &case.payload());
    let most = plan.cases.unwrap_or(MOST);
    let mut hunt = Hunt::default();
    for (number, tree) in (1..=most).zip(trees(plan.seed, &Vocabulary::of(plan.scenarios))) {
        let case = tree.current();
        let asked = ask(&case);
        hunt.cases = number;
        progress(number, most);
        match Fault::of(&case, &asked, longest) {
            None => {
                hunt.fuel = hunt.fuel.max(asked.fuel);
                hunt.memory = hunt.memory.max(asked.memory);
            }
            Some(fault) if hunt.caught(fault).is_some() => {}
            Some(fault) => {
                let still = |case: &Case| {
                    let asked = ask(case);
                    (Fault::of(case, &asked, longest) == Some(fault)).then_some(asked)
                };
                let (case, asked) = smallest(tree, (case, asked), &still);
                hunt.caught.push(Caught {
                    fault,
                    number,
                    case,
                    asked,
                });
            }
        }
        let is_late = plan.cases.is_none() && started.elapsed() > HUNTING;
        if is_late && number >= LEAST {
            break;
        }
    }
    hunt
}

/// Makes a failure simpler for as long as the policy does not stand it either: whole fields at once back to the plainest of failures, then what is left of them bit by bit.
fn smallest(
    mut tree: impl ValueTree<Value = Case>,
    mut found: (Case, Asked),
    still: &dyn Fn(&Case) -> Option<Asked>,
) -> (Case, Asked) {
    let started = clock::instant();
    let mut plain: Vec<fn(&mut Case)> = Vec::new();
    for make_plain in PLAIN {
        let mut case = found.0.clone();
        make_plain(&mut case);
        if case == found.0 {
            plain.push(make_plain);
        } else if let Some(asked) = still(&case) {
            plain.push(make_plain);
            found = (case, asked);
        }
    }
    let mut tries = 0;
    let mut goes_on = tree.simplify();
    while goes_on && tries < TRIES && started.elapsed() < SHRINKING {
        let mut case = tree.current();
        plain.iter().for_each(|make_plain| make_plain(&mut case));
        if case == found.0 {
            // Only what is plain already has become simpler.
            goes_on = tree.simplify();
            continue;
        }
        tries += 1;
        goes_on = match still(&case) {
            Some(asked) => {
                found = (case, asked);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    found
}

/// Each makes one field the plainest; the random number comes last, since it follows from others.
const PLAIN: [fn(&mut Case); 15] = [
    |case| case.body = String::new(),
    |case| case.failure.error = plain_failure().error,
    |case| case.failure.error.code = plain_failure().error.code,
    |case| case.failure.error.message = String::new(),
    |case| case.failure.error.status = None,
    |case| case.failure.error.retry_after = None,
    |case| case.failure.error.details = Vec::new(),
    |case| case.failure.attributes = Vec::new(),
    |case| case.failure.source = plain_failure().source,
    |case| case.failure.message_id = plain_failure().message_id,
    |case| case.failure.failed_at = plain_failure().failed_at,
    |case| case.failure.previous_delay = None,
    |case| case.failure.age = plain_failure().age,
    |case| case.failure.attempt = plain_failure().attempt,
    |case| case.failure.random = random(&case.failure.message_id, case.failure.attempt),
];
