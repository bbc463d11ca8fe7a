//! The contract's types as the plain values of `backstop_backoff`, and back.

use crate::{Class, ErrorClass, FailedAttempt, Failure};

impl<'a> From<&'a Failure> for FailedAttempt<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            code: &failure.error.code,
            status: failure.error.status,
            retry_after: failure.error.retry_after,
            attempt: failure.attempt,
            age: failure.age,
            previous_delay: failure.previous_delay,
            random: failure.random,
        }
    }
}

impl From<Class> for ErrorClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Transient => Self::Transient,
            Class::Throttled => Self::Throttled,
            Class::Permanent => Self::Permanent,
        }
    }
}

impl ErrorClass {
    /// The default class of the same name. `None` for a class of a policy's own.
    pub fn known(&self) -> Option<Class> {
        match self {
            Self::Transient => Some(Class::Transient),
            Self::Throttled => Some(Class::Throttled),
            Self::Permanent => Some(Class::Permanent),
            Self::Other(_) => None,
        }
    }
}
