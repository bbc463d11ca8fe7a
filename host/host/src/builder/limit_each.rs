//! Limits for the messages of each key.

use super::{Backstop, Change};
use crate::config::raw::LimitEach;

/// Limits for the messages of each key.
///
/// ```
/// # use backstop_host::Backstop;
/// let host = Backstop::queue("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
///     .limit_each("/tenant")
///     .limit_each_rate("20/s")
///     .limit_each_max_in_flight(5)
///     .handler(|_order| async { Ok(()) });
/// # let _ = host;
/// ```
impl Backstop {
    /// What the messages of a key have in common: the text at a JSON pointer such as `/tenant`, or in an attribute, such as `attribute:tenant`.
    pub fn limit_each(self, by: impl Into<String>) -> Self {
        let by = by.into();
        LimitEach::change(self, "by", |it| it.by.clone_from(&by))
    }
}
