//! What one call sets for itself.

use std::time::Duration;

use backstop_time::Deadline;

use super::Run;

impl<F, Fut, T, E, D, C> Run<'_, F, Fut, T, E, D, C> {
    /// When the result is needed: an instant, a duration from the start of the call, or the time of a Lambda context. See [`Deadline`].
    ///
    /// No attempt starts after it, no wait begins that cannot end before it, and an attempt that is under way is [cut short](Self::interrupt_at_deadline).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backstop_retry::{Error, Linear, Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let policy = Linear::default().base(Duration::from_secs(1));
    /// let retrier = Retrier::builder().policy(policy).clock(clock.clone()).build()?;
    /// let call = retrier
    ///     .run(|_| async { Err::<(), _>(Error::new("HTTP 503", "busy")) })
    ///     .deadline(Duration::from_secs(4));
    ///
    /// let error = clock.block_on(call).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the deadline ended the call after 3 attempts, with 1s left and a delay of 3s: HTTP 503"
    /// );
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn deadline(mut self, deadline: impl Into<Deadline>) -> Self {
        self.options.deadline = Some(deadline.into());
        self
    }

    /// The longest that one attempt may take. A longer one is cut short and counts as a failure with the code `Timeout`, which the policy may retry.
    ///
    /// ```
    /// use std::future::pending;
    /// use std::time::Duration;
    ///
    /// use backstop_retry::{Error, Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let call = retrier
    ///     .run(|_| pending::<Result<(), Error>>())
    ///     .attempt_timeout(Duration::from_secs(1));
    /// let error = clock.block_on(call).unwrap_err();
    /// assert_eq!(error.description().unwrap().code, "Timeout");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.options.attempt_timeout = Some(timeout);
        self
    }

    /// The least time before the deadline that makes an attempt worthwhile; 0 by default. With less time left, the call ends instead.
    pub fn min_attempt_time(mut self, time: Duration) -> Self {
        self.options.min_attempt_time = time;
        self
    }

    /// Whether the deadline cuts an attempt short that is under way; yes by default, because the caller needs an answer by then. With `false` the last attempt may end after the deadline.
    ///
    /// An attempt that is cut short may still have had its effect on the other side, as with every timeout.
    pub fn interrupt_at_deadline(mut self, interrupt: bool) -> Self {
        self.options.interrupt_at_deadline = interrupt;
        self
    }

    /// The id of the call: the `message-id` of its failures, in logs and decision records. The randomness of its delays derives from it. By default each call has an id of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Passes an attribute to the policy, such as the tenant or the operation.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}
