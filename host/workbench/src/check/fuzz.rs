//! Evaluates a policy with generated failures, and minimises the first failure of each kind that it does not handle.

use std::time::Duration;

use super::generate::{Case, Vocabulary, cases};
use super::plan::Plan;
use super::shrink::smallest;
use backstop_core::clock;
use backstop_core::decision::{Action, Answer};
use backstop_core::failure::Milliseconds;
use backstop_engine::{Evaluation, EvaluationError, Policy, StoppedClock};

/// The number of generated failures, if there is time.
const MAX_CASES: u32 = 2_000;

/// The number of generated failures for a slow policy.
const MIN_CASES: u32 = 100;

/// The time limit, unless the number of cases is given.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The first failures are evaluated with another clock even if the policy does not read it: it may have done so when it started.
const CLOCK_CASES: u32 = 8;

/// How a policy fails to handle a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It trapped.
    Trap,
    /// It exceeded a limit.
    Limit,
    /// It gave an invalid answer.
    InvalidAnswer,
    /// It gave a delay that is too long, and longer than the failing service asked for.
    Delay,
    /// It gave another answer for another order of attributes and details.
    Order,
}

impl Fault {
    fn of(case: &Case, evaluation: &Evaluation, longest: Milliseconds) -> Option<Self> {
        match &evaluation.answer {
            Err(
                EvaluationError::OutOfFuel(..)
                | EvaluationError::OutOfTime(..)
                | EvaluationError::OutOfBounds(..),
            ) => Some(Self::Limit),
            Err(EvaluationError::InvalidAnswer(_)) => Some(Self::InvalidAnswer),
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

/// A minimised failure that the policy does not handle.
#[derive(Debug)]
pub(super) struct Caught {
    pub(super) fault: Fault,
    /// The number of the generated failure, from 1.
    pub(super) number: u32,
    pub(super) case: Case,
    pub(super) tested: Tested,
}

/// The result of evaluating generated failures.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The number of generated failures.
    pub(super) cases: u32,
    /// The most fuel of one decision that ended.
    pub(super) fuel: u64,
    /// The most memory of one decision that ended, in bytes.
    pub(super) memory: usize,
    /// The number of the first failure whose answer depends on the clock.
    pub(super) clock_dependent: Option<u32>,
    caught: Vec<Caught>,
}

impl Findings {
    /// The failure with this fault, if there is one.
    pub(super) fn caught(&self, fault: Fault) -> Option<&Caught> {
        self.caught.iter().find(|caught| caught.fault == fault)
    }
}

pub(super) fn run(
    policy: &Policy,
    plan: &Plan<'_>,
    words: &Vocabulary,
    progress: &mut dyn FnMut(u32, u32),
) -> Findings {
    let started = clock::instant();
    let most = plan.cases.unwrap_or(MAX_CASES);
    let mut findings = Findings::default();
    for (number, case) in (1..=most).zip(cases(plan.seed, words)) {
        findings.cases = number;
        progress(number, most);
        let tested = Tested::of(policy, &case, plan.longest_delay, is_reordered(number));
        if findings.clock_dependent.is_none()
            && depends_on_clock(policy, &case, number, &tested.evaluation)
        {
            findings.clock_dependent = Some(number);
        }
        match tested.fault {
            None => {
                findings.fuel = findings.fuel.max(tested.evaluation.fuel);
                findings.memory = findings.memory.max(tested.evaluation.memory);
            }
            Some(fault) if findings.caught(fault).is_some() => {}
            Some(fault) => {
                let still_fails = |case: &Case| {
                    let reordered = fault == Fault::Order;
                    let tested = Tested::of(policy, case, plan.longest_delay, reordered);
                    (tested.fault == Some(fault)).then_some(tested)
                };
                let (case, tested) = smallest((case, tested), &still_fails);
                findings.caught.push(Caught {
                    fault,
                    number,
                    case,
                    tested,
                });
            }
        }
        let is_late = plan.cases.is_none() && started.elapsed() > TIME_LIMIT;
        if is_late && number >= MIN_CASES {
            break;
        }
    }
    findings
}

/// Whether to evaluate this failure in another order too, which takes twice as long.
fn is_reordered(number: u32) -> bool {
    number.is_multiple_of(4)
}

/// Whether the answer changes with the time on the clock. Reading the clock alone means little: the runtimes of Go and Python do so themselves.
fn depends_on_clock(policy: &Policy, case: &Case, number: u32, evaluation: &Evaluation) -> bool {
    if !evaluation.read_clock && number > CLOCK_CASES {
        return false;
    }
    let other = policy.evaluate_at(other_clock(number), &case.failure, &case.payload());
    let ran_out_of_time =
        |evaluation: &Evaluation| matches!(evaluation.answer, Err(EvaluationError::OutOfTime(..)));
    !ran_out_of_time(evaluation) && !ran_out_of_time(&other) && !is_same(evaluation, &other)
}

/// A time from 2026 on, each a day, two hours, three minutes and four seconds later, so that all weekdays and hours occur.
fn other_clock(number: u32) -> StoppedClock {
    let number = u64::from(number);
    StoppedClock {
        seconds: 1_767_225_600 + number * 93_784,
        monotonic: number * 1_000_000_007,
    }
}

/// Whether two answers are equivalent. The text of the reason does not matter.
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
        && one.down_for == other.down_for
}

/// The evaluation of one failure.
#[derive(Debug)]
pub(super) struct Tested {
    fault: Option<Fault>,
    /// For [`Fault::Order`], the one in another order.
    pub(super) evaluation: Evaluation,
    /// For [`Fault::Order`], the one in the original order.
    pub(super) before: Option<Evaluation>,
}

impl Tested {
    /// `reordered` evaluates it in another order too.
    fn of(policy: &Policy, case: &Case, longest: Milliseconds, reordered: bool) -> Self {
        let evaluation = policy.evaluate(&case.failure, &case.payload());
        let fault = Fault::of(case, &evaluation, longest);
        let other = reordered
            .then(|| case.reordered())
            .filter(|other| other != case);
        if let (None, Some(other)) = (fault, other) {
            let again = policy.evaluate(&other.failure, &other.payload());
            if !is_same(&evaluation, &again) {
                return Self {
                    fault: Some(Fault::Order),
                    evaluation: again,
                    before: Some(evaluation),
                };
            }
        }
        Self {
            fault,
            evaluation,
            before: None,
        }
    }
}
