//! One entry between the input and its outcome.

use backstop_core::failure::{Error, Milliseconds};
use tokio::time::Instant;

use crate::outcome::{Outcome, Status, Undelivered};
use crate::target::Group;

/// An entry without an outcome.
#[derive(Debug)]
pub(crate) struct Held<E> {
    pub(crate) entry: E,
    pub(crate) meta: Meta,
}

/// What the delivery remembers of an entry. It is moved several times, so what few entries have is boxed.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) index: u64,
    pub(crate) group: Option<Group>,
    pub(crate) bytes: usize,
    pub(crate) accepted: Instant,
    pub(crate) attempts: u32,
    pub(crate) unknown: u32,
    pub(crate) previous_delay: Option<Milliseconds>,
    pub(crate) last_error: Option<Box<Error>>,
    /// Why it can't be sent. It waits for its turn all the same, so that the outcomes of a group are in order.
    pub(crate) unfit: Option<Box<Undelivered>>,
}

impl<E> Held<E> {
    pub(crate) fn end<R>(self, status: Status<R>) -> Outcome<E, R> {
        Outcome {
            entry: self.entry,
            index: self.meta.index,
            attempts: self.meta.attempts,
            unknown: self.meta.unknown,
            status,
        }
    }
}
