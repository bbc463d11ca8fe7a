//! What JavaScript holds by number: retriers, calls, budgets, breakers and bulkheads.

use std::cell::RefCell;
use std::rc::Rc;

use backstop_core::budget::Bucket;

use crate::call::Call;
use crate::retrier::{Bulkhead, NamedBreaker, Retrier};

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State {
        retriers: Vec::new(),
        calls: Vec::new(),
        budgets: Vec::new(),
        breakers: Vec::new(),
        bulkheads: Vec::new(),
    }) };
}

/// Values by number. A number is free again once its value was removed.
pub(crate) type Numbered<T> = Vec<Option<T>>;

pub(crate) struct State {
    pub(crate) retriers: Numbered<Rc<Retrier>>,
    pub(crate) calls: Numbered<Call>,
    pub(crate) budgets: Numbered<Rc<Bucket>>,
    pub(crate) breakers: Numbered<Rc<NamedBreaker>>,
    pub(crate) bulkheads: Numbered<Rc<Bulkhead>>,
}

/// Lends the state. Nothing that runs within may borrow it again.
pub(crate) fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

/// The number of the next value.
pub(crate) fn next<T>(all: &Numbered<T>) -> usize {
    let free = all.iter().position(Option::is_none);
    free.unwrap_or(all.len())
}

/// Adds a value, and returns its number.
pub(crate) fn add<T>(all: &mut Numbered<T>, value: T) -> usize {
    let number = next(all);
    match all.get_mut(number) {
        Some(free) => *free = Some(value),
        None => all.push(Some(value)),
    }
    number
}

/// Removes a value.
pub(crate) fn remove<T>(all: &mut Numbered<T>, number: usize) -> Option<T> {
    all.get_mut(number)?.take()
}

/// A value by the number that JavaScript has for it.
pub(crate) fn get<T: Clone>(all: &Numbered<T>, number: f64) -> Option<T> {
    let number = usize::try_from(crate::wire::saturated(number)).ok()?;
    all.get(number)?.clone()
}
