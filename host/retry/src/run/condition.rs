//! Which results a call retries, in addition to what its policy decides: [`Condition`].

use std::fmt;

/// Which results of the function are passed to the policy, made by [`Run::retry_if`](super::Run::retry_if) and [`Run::retry_if_ok`](super::Run::retry_if_ok).
pub trait Condition<T, E> {
    /// Whether the policy decides about this error. Otherwise it ends the call.
    fn retries_error(&self, error: &E) -> bool;

    /// Whether this value is a failure, about which the policy decides.
    fn retries_ok(&self, value: &T) -> bool;
}

/// Every error, and no value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Always;

impl<T, E> Condition<T, E> for Always {
    fn retries_error(&self, _: &E) -> bool {
        true
    }

    fn retries_ok(&self, _: &T) -> bool {
        false
    }
}

/// Only errors for which a closure says so.
#[derive(Clone, Copy)]
pub struct RetryIf<C, P> {
    pub(super) condition: C,
    pub(super) retries: P,
}

impl<T, E, C: Condition<T, E>, P: Fn(&E) -> bool> Condition<T, E> for RetryIf<C, P> {
    fn retries_error(&self, error: &E) -> bool {
        self.condition.retries_error(error) && (self.retries)(error)
    }

    fn retries_ok(&self, value: &T) -> bool {
        self.condition.retries_ok(value)
    }
}

/// Values for which a closure says so, too.
#[derive(Clone, Copy)]
pub struct RetryIfOk<C, P> {
    pub(super) condition: C,
    pub(super) retries: P,
}

impl<T, E, C: Condition<T, E>, P: Fn(&T) -> bool> Condition<T, E> for RetryIfOk<C, P> {
    fn retries_error(&self, error: &E) -> bool {
        self.condition.retries_error(error)
    }

    fn retries_ok(&self, value: &T) -> bool {
        self.condition.retries_ok(value) || (self.retries)(value)
    }
}

impl<C, P> fmt::Debug for RetryIf<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryIf(..)")
    }
}

impl<C, P> fmt::Debug for RetryIfOk<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryIfOk(..)")
    }
}
