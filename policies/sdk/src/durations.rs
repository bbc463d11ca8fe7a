//! The spans of time in a failure, as Rust has them: the contract has milliseconds.

use crate::{Duration, Error, Failure};

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

impl Failure {
    /// From when the message was first sent to when this attempt failed: `age`.
    ///
    /// ```
    /// use backstop_policy::{Duration, Failure, testing};
    /// let failure = Failure { age: 90_000, ..testing::failure("HTTP 503") };
    /// assert_eq!(failure.aged(), Duration::from_secs(90));
    /// ```
    pub fn aged(&self) -> Duration {
        milliseconds(self.age)
    }

    /// The delay before the attempt that failed, `previous-delay`: none after the first, and none where the host does not know it.
    pub fn waited(&self) -> Option<Duration> {
        self.previous_delay.map(milliseconds)
    }
}

impl Error {
    /// How long the failing service asked to be left alone, `retry-after`; it may be up to 49 days, and no delay may be over 14.
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
