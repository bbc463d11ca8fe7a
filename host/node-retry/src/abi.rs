//! What JavaScript calls: retriers and calls by number, and what is next in a call.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;

use backstop_core::call::Limits;
use backstop_javascript::error::read_error;

use crate::call::Call;
use crate::clock::now;
use crate::evaluation::{read_answer, write_failure};
use crate::retrier::{Ids, Policy, Retrier};
use crate::shown::{write_decided, write_end};
use crate::state::{self, State, add, get, with};
use crate::step::{Options, Step};
use crate::wire::{Reader, Writer, answer, milliseconds, reader, saturated};

/// Builds a retrier of the options that are passed. Returns its number.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn retrier_new() -> usize {
    let mut reader = reader();
    with(|state| {
        let retrier = build(&mut reader, state);
        add(&mut state.retriers, Rc::new(retrier))
    })
}

fn build(reader: &mut Reader, state: &State) -> Retrier {
    let source = reader.text();
    let policy = if reader.flag() {
        Policy::Default
    } else {
        Policy::InJavaScript
    };
    let max_attempts = reader.optional().map(saturated);
    let max_delay = reader.duration();
    let max_retry_after = reader.duration();
    let budget = reader.optional();
    let breaker = reader.optional();
    let bulkhead = reader.optional();
    let waits = reader.flag();
    let (high, low) = (reader.whole(), reader.whole());
    let max_attempts = max_attempts.map(|it| NonZeroU32::new(it).unwrap_or(NonZeroU32::MIN));
    Retrier {
        limits: Limits::new(source, max_attempts, max_delay, max_retry_after),
        policy,
        budget: budget.and_then(|it| get(&state.budgets, it)),
        breaker: breaker.and_then(|it| get(&state.breakers, it)),
        bulkhead: bulkhead.and_then(|it| get(&state.bulkheads, it)),
        waits,
        ids: Ids {
            seed: u64::from(high) << 32 | u64::from(low),
            next: Cell::new(1),
        },
    }
}

/// Forgets a retrier. Its calls go on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn retrier_drop(number: usize) {
    drop(with(|state| state::remove(&mut state.retriers, number)));
}

/// A call of a retrier, with the options that are passed. Returns its number.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_new(retrier: f64) -> i32 {
    let mut reader = reader();
    let options = Options {
        deadline: reader.duration(),
        attempt_timeout: reader.duration(),
        min_attempt_time: reader.duration().unwrap_or_default(),
        lets_end: reader.flag(),
        id: Some(reader.text()).filter(|id| !id.is_empty()),
        attributes: reader.pairs(),
    };
    with(|state| {
        let Some(retrier) = get(&state.retriers, retrier) else {
            return -1;
        };
        let number = state::next(&state.calls);
        add(&mut state.calls, Call::new(retrier, number, options));
        i32::try_from(number).unwrap_or(-1)
    })
}

/// The call begins, its wait is over, it has got a place, or what is under way took too long.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_go_on(call: usize, monotonic: f64, wall: f64) -> i32 {
    step(call, |call| call.go_on(now(monotonic, wall)))
}

/// The wait for a place took too long.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_cut(call: usize, monotonic: f64, wall: f64) -> i32 {
    step(call, |call| call.cut(now(monotonic, wall)))
}

/// The attempt has succeeded, with a value that the caller waits for or not.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_succeeded(
    call: usize,
    is_not_ready: i32,
    monotonic: f64,
    wall: f64,
) -> i32 {
    step(call, |call| {
        call.succeeded(is_not_ready != 0, now(monotonic, wall))
    })
}

/// The attempt has failed. What JavaScript knows of the error is passed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_failed(
    call: usize,
    is_refused: i32,
    monotonic: f64,
    wall: f64,
) -> i32 {
    let error = read_error(&mut reader(), wall);
    step(call, |call| {
        call.failed(error, is_refused != 0, now(monotonic, wall))
    })
}

/// The policy has answered, or is broken. Its answer is passed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_evaluated(call: usize, monotonic: f64, wall: f64) -> i32 {
    let answer = read_answer(&mut reader());
    step(call, |call| call.evaluated(answer, now(monotonic, wall)))
}

/// Forgets a call. One that has not ended is cancelled.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_drop(call: usize) {
    drop(with(|state| state::remove(&mut state.calls, call)));
}

/// A call that has got a place of a bulkhead, or -1.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call_woken() -> i32 {
    let woken = with(|state| {
        let mut bulkheads = state.bulkheads.iter().flatten();
        bulkheads.find_map(|bulkhead| bulkhead.woken())
    });
    woken.and_then(|it| i32::try_from(it).ok()).unwrap_or(-1)
}

/// Lets a call go a step, and writes what is next: its kind, and what belongs to it.
fn step(number: usize, go: impl FnOnce(&mut Call) -> Step) -> i32 {
    with(|state| {
        let Some(Some(call)) = state.calls.get_mut(number) else {
            return -1;
        };
        let step = go(call);
        written(call, step)
    })
}

/// What is next, in the order in which JavaScript reads it.
#[inline(never)]
fn written(call: &mut Call, step: Step) -> i32 {
    let mut writer = Writer::default();
    let kind: u8 = match &step {
        Step::Attempt { .. } => 0,
        Step::Evaluate { .. } => 1,
        Step::Wait(_) => 2,
        Step::Enter { .. } => 3,
        Step::Succeeded => 4,
        Step::Ended(_) => 5,
    };
    writer.number(kind);
    match step {
        Step::Attempt { number, cut_after } => {
            writer.number(number).optional(cut_after.map(milliseconds));
            writer.optional(call.time_left_at_start().map(milliseconds));
        }
        Step::Evaluate { failure, cut_after } => {
            writer.optional(cut_after.map(milliseconds));
            write_failure(&mut writer, &failure);
        }
        Step::Wait(time) => {
            writer
                .number(milliseconds(time))
                .optional(call.budget_left());
            write_decided(&mut writer, call.decided.take());
        }
        Step::Enter { cut_after } => {
            writer.optional(cut_after.map(milliseconds));
        }
        Step::Succeeded => {
            writer.number(call.attempts);
        }
        Step::Ended(end) => {
            writer.optional(call.budget_left());
            write_end(&mut writer, &call.ended(end));
            write_decided(&mut writer, call.decided.take());
        }
    }
    answer(writer.0)
}
