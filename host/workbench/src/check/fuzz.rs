//! Looks among generated failures for those that a policy does not stand, and makes the first of each kind as small as it gets.

use std::time::Duration;

use super::Plan;
use super::generate::{Case, Vocabulary, cases};
use super::shrink::smallest;
use backstop::policy::{Evaluation, EvaluationError, Policy, StoppedClock};
use backstop_core::clock;
use backstop_core::decision::{Action, Answer};
use backstop_core::failure::Milliseconds;

/// How many failures are generated, if there is time.
const MOST: u32 = 2_000;

/// How many are generated however slow the policy is.
const LEAST: u32 = 100;

/// How long failures are generated for.
const HUNTING: Duration = Duration::from_secs(3);

/// On so many failures the clock is tried whether the policy reads it or not: it may have done so at its start.
const CLOCKS: u32 = 8;

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
    /// Another answer when attributes and details come in another order.
    Order,
}

impl Fault {
    fn of(case: &Case, asked: &Evaluation, longest: Milliseconds) -> Option<Self> {
        match &asked.answer {
            Err(
                EvaluationError::OutOfFuel(..)
                | EvaluationError::OutOfTime(..)
                | EvaluationError::OutOfBounds(..),
            ) => Some(Self::Limit),
            Err(EvaluationError::InvalidAnswer(_)) => Some(Self::Nonsense),
            Err(
                EvaluationError::Trapped(..)
                | EvaluationError::Settings(_)
                | EvaluationError::NoSettings(_)
                | EvaluationError::NotLoaded(_),
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
    /// What it made of it; of [`Fault::Order`], of the same in another order.
    pub(super) asked: Evaluation,
    /// Of [`Fault::Order`], what it made of it as it was.
    pub(super) before: Option<Evaluation>,
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
    /// The first of the failures whose answer depends on the clock.
    pub(super) by_clock: Option<u32>,
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
    let most = plan.cases.unwrap_or(MOST);
    let mut hunt = Hunt::default();
    for (number, case) in (1..=most).zip(cases(plan.seed, &Vocabulary::of(plan.scenarios))) {
        hunt.cases = number;
        progress(number, most);
        let seen = Seen::of(policy, &case, plan.longest_delay, is_turned(number));
        if hunt.by_clock.is_none() && depends_on_clock(policy, &case, number, &seen.asked) {
            hunt.by_clock = Some(number);
        }
        match seen.fault {
            None => {
                hunt.fuel = hunt.fuel.max(seen.asked.fuel);
                hunt.memory = hunt.memory.max(seen.asked.memory);
            }
            Some(fault) if hunt.caught(fault).is_some() => {}
            Some(fault) => {
                let still = |case: &Case| {
                    let turned = fault == Fault::Order;
                    let seen = Seen::of(policy, case, plan.longest_delay, turned);
                    (seen.fault == Some(fault)).then_some(seen)
                };
                let (case, seen) = smallest((case, seen), &still);
                hunt.caught.push(Caught {
                    fault,
                    number,
                    case,
                    asked: seen.asked,
                    before: seen.before,
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

/// Whether this failure is asked about in another order too: it takes as long once more.
fn is_turned(number: u32) -> bool {
    number.is_multiple_of(4)
}

/// Whether the policy answers something else when its clocks show another time. That it reads one says little: the runtimes of Go and Python do so themselves.
fn depends_on_clock(policy: &Policy, case: &Case, number: u32, asked: &Evaluation) -> bool {
    if !asked.read_clock && number > CLOCKS {
        return false;
    }
    let other = policy.evaluate_at(other_clock(number), &case.failure, &case.payload());
    let ran_out_of_time =
        |asked: &Evaluation| matches!(asked.answer, Err(EvaluationError::OutOfTime(..)));
    !ran_out_of_time(asked) && !ran_out_of_time(&other) && !is_same(asked, &other)
}

/// From 2026 on, a day, two hours, three minutes and four seconds later each time: each weekday and hour has its turn.
fn other_clock(number: u32) -> StoppedClock {
    let number = u64::from(number);
    StoppedClock {
        seconds: 1_767_225_600 + number * 93_784,
        monotonic: number * 1_000_000_007,
    }
}

/// Whether two answers come to the same; a reason in other words does.
fn is_same(one: &Evaluation, other: &Evaluation) -> bool {
    let (Ok(one), Ok(other)) = (&one.answer, &other.answer) else {
        return one.answer == other.answer;
    };
    let delay = |answer: &Answer| match &answer.action {
        Action::Retry { delay } => Some(*delay),
        Action::DeadLetter { .. } | Action::Discard { .. } => None,
    };
    one.class == other.class
        && one.action.verdict() == other.action.verdict()
        && delay(one) == delay(other)
}

/// What a policy makes of one failure.
struct Seen {
    fault: Option<Fault>,
    asked: Evaluation,
    before: Option<Evaluation>,
}

impl Seen {
    /// `turned`: in another order too.
    fn of(policy: &Policy, case: &Case, longest: Milliseconds, turned: bool) -> Self {
        let asked = policy.evaluate(&case.failure, &case.payload());
        let fault = Fault::of(case, &asked, longest);
        let other = turned.then(|| case.turned()).filter(|other| other != case);
        if let (None, Some(other)) = (fault, other) {
            let again = policy.evaluate(&other.failure, &other.payload());
            if !is_same(&asked, &again) {
                return Self {
                    fault: Some(Fault::Order),
                    asked: again,
                    before: Some(asked),
                };
            }
        }
        Self {
            fault,
            asked,
            before: None,
        }
    }
}
