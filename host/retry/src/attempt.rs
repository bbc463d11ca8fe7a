//! One attempt, as the function sees it.

use std::num::NonZeroU32;
use std::time::Instant;

/// Passed to the function at each attempt.
///
/// ```
/// use backstop_retry::{Error, Retrier, TestClock};
///
/// let clock = TestClock::new();
/// let retrier = Retrier::builder().clock(clock.clone()).build()?;
/// let call = retrier.run(|attempt| async move {
///     if attempt.is_retry() {
///         Ok(attempt.number())
///     } else {
///         Err(Error::new("HTTP 503", "busy"))
///     }
/// });
/// assert_eq!(clock.block_on(call).unwrap(), 2);
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) number: NonZeroU32,
    pub(crate) deadline: Option<Instant>,
}

impl Attempt {
    /// The number of the attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// Whether it repeats a failed one.
    pub fn is_retry(&self) -> bool {
        self.number > NonZeroU32::MIN
    }

    /// The call's deadline, to pass it on to the service that is called.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
