//! The durations of a failure as [`Duration`]; the contract has milliseconds.

use crate::{Duration, Error, Failure};

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

impl Failure {
    /// The time from when the message was first sent to this failure: `age`.
    ///
    /// ```
    /// use backstop_policy::{Duration, Failure, testing};
    /// let failure = Failure { age: 90_000, ..testing::failure("HTTP 503") };
    /// assert_eq!(failure.aged(), Duration::from_secs(90));
    /// ```
    pub fn aged(&self) -> Duration {
        milliseconds(self.age)
    }

    /// The delay before the attempt that failed: `previous-delay`. `None` after the first attempt, and if the host does not know it.
    pub fn waited(&self) -> Option<Duration> {
        self.previous_delay.map(milliseconds)
    }
}

impl Error {
    /// The delay that the failing service asked for: `retry-after`. It may be up to 49 days, but no delay may exceed 14 days.
    ///
    /// ```
    /// use backstop_policy::{Duration, testing};
    /// let mut error = testing::failure("HTTP 429").error;
    /// error.retry_after = Some(30_000);
    /// assert_eq!(error.asked_for(), Some(Duration::from_secs(30)));
    /// ```
    pub fn asked_for(&self) -> Option<Duration> {
        self.retry_after.map(milliseconds)
    }
}
