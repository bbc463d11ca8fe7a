//! What retriers share: budgets, breakers and bulkheads, as JavaScript makes them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::breaker::{Breaker, BreakerSettings, State};
use backstop_core::budget::{Bucket, BudgetSettings};

use crate::retrier::{Bulkhead, NamedBreaker};
use crate::state::{add, with};
use crate::wire::{Reader, Writer, answer, given_text, reader, saturated};

/// A budget: the set of numbers that it begins with, and the numbers that are others.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn budget_new() -> usize {
    let mut reader = reader();
    let mut numbers = match reader.text().as_str() {
        "aws-2.0" => BudgetSettings::AWS_2_0,
        _ => BudgetSettings::AWS_2_1,
    };
    let mut whole = |number: &mut u32| *number = reader.optional().map_or(*number, saturated);
    whole(&mut numbers.capacity);
    whole(&mut numbers.transient_cost);
    whole(&mut numbers.throttled_cost);
    whole(&mut numbers.other_cost);
    whole(&mut numbers.first_success);
    numbers.refill_per_second = reader.optional().unwrap_or(numbers.refill_per_second);
    numbers.floor_per_second = reader.optional().unwrap_or(numbers.floor_per_second);
    let bucket = Rc::new(Bucket::new(numbers));
    with(|state| add(&mut state.budgets, bucket))
}

/// The tokens that are left in a budget.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn budget_left(number: usize) -> f64 {
    with(|state| match state.budgets.get(number) {
        Some(Some(bucket)) => bucket.left(),
        _ => f64::NAN,
    })
}

/// A breaker: its name, and the numbers that are not the default ones.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn breaker_new() -> usize {
    let mut reader = reader();
    let name = reader.text().into();
    let mut numbers = BreakerSettings::default();
    let whole = |reader: &mut Reader, number: u32| reader.optional().map_or(number, saturated);
    let time = |reader: &mut Reader, time: Duration| reader.duration().unwrap_or(time);
    numbers = numbers
        .minimum(whole(&mut reader, numbers.minimum))
        .shortest_outage(time(&mut reader, numbers.shortest_outage));
    if let (Some(first), Some(longest)) = (reader.optional(), reader.optional()) {
        numbers = numbers.pauses(Backoff::milliseconds(saturated(first), saturated(longest)));
    }
    numbers = numbers
        .longest_retry_after(time(&mut reader, numbers.longest_retry_after))
        .most(whole(&mut reader, numbers.most))
        .growth(whole(&mut reader, numbers.growth))
        .share(reader.optional().unwrap_or(numbers.share))
        .cut(reader.optional().unwrap_or(numbers.cut));
    let breaker = RefCell::new(Breaker::new(numbers));
    with(|state| add(&mut state.breakers, Rc::new(NamedBreaker { name, breaker })))
}

/// The state of a breaker: its name, the attempts in flight, and the failures since the last success.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn breaker_status(number: usize) -> i32 {
    let status = with(|state| match state.breakers.get(number) {
        Some(Some(breaker)) => Some(breaker.breaker.borrow().status()),
        _ => None,
    });
    let Some(status) = status else { return -1 };
    let name = match status.state {
        State::Closed => "closed",
        State::Open { .. } => "open",
        State::Probing => "probing",
        State::Growing { .. } => "growing",
    };
    let mut writer = Writer::default();
    writer
        .text(name)
        .number(status.in_flight)
        .number(status.failed);
    answer(writer.0)
}

/// A bulkhead of so many places. Its name is passed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn bulkhead_new(most: f64) -> usize {
    let bulkhead = Rc::new(Bulkhead::new(&given_text(), saturated(most)));
    with(|state| add(&mut state.bulkheads, bulkhead))
}

/// The places that are free in a bulkhead.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn bulkhead_free(number: usize) -> f64 {
    with(|state| match state.bulkheads.get(number) {
        Some(Some(bulkhead)) => bulkhead.free.get().into(),
        _ => f64::NAN,
    })
}

/// A duration as text, in milliseconds; NaN if the text is none.
#[unsafe(no_mangle)]
#[expect(clippy::cast_precision_loss, reason = "285,000 years are exact")]
pub(crate) extern "C" fn duration() -> f64 {
    let parsed = backstop_backoff::parse_duration(&given_text());
    parsed.map_or(f64::NAN, |milliseconds| milliseconds as f64)
}

/// Forgets a budget (0), a breaker (1) or a bulkhead (2). Retriers that have it keep it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn guard_drop(kind: i32, number: usize) {
    with(|state| match kind {
        0 => crate::state::remove(&mut state.budgets, number).is_some(),
        1 => crate::state::remove(&mut state.breakers, number).is_some(),
        _ => crate::state::remove(&mut state.bulkheads, number).is_some(),
    });
}
