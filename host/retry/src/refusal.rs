//! Why an attempt may not begin.

use std::sync::Arc;
use std::time::Duration;

/// What refused an attempt.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// The name of the breaker or the bulkhead.
    pub(crate) by: Arc<str>,
    /// The time until the next probe of a breaker that is open.
    pub(crate) next_probe: Option<Duration>,
}
