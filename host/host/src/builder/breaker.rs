//! When nothing is attempted because what is behind the worker is down.

use super::{Backstop, Change};
use crate::config::raw::Breaker;

/// When nothing is attempted because what is behind the worker is down.
///
/// ```
/// # use std::time::Duration;
/// # use backstop_host::Backstop;
/// let host = Backstop::queue("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
///     .breaker("/tenant")
///     .breaker_after(Duration::from_secs(10))
///     .handler(|_order| async { Ok(()) });
/// # let _ = host;
/// ```
impl Backstop {
    /// What is down together: the whole `queue`, or the messages with the same text at a JSON pointer such as `/tenant`, or in an attribute, such as `attribute:tenant`.
    pub fn breaker(self, by: impl Into<String>) -> Self {
        let by = by.into();
        Breaker::change(self, "by", |it| it.by.clone_from(&by))
    }
}
