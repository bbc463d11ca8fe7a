//! What one call sets for itself.

use std::marker::PhantomData;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_time::Deadline;

use super::{RetryIf, RetryIfOk, Run};
use crate::attempt::Attempt;
use crate::describe::By;

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

impl<'a, F, Fut, T, E, D, C> Run<'a, F, Fut, T, E, D, C>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    /// Describes the function's errors with a closure instead of their own [`Describe`](crate::Describe).
    ///
    /// ```
    /// use backstop_retry::{Error, Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let call = retrier
    ///     .run(|_| async { Err::<(), _>("no such article") })
    ///     .describe(|text| Error::permanent("NoSuchArticle", *text));
    /// let error = clock.block_on(call).unwrap_err();
    /// assert_eq!(error.to_string(), "permanent error after 1 attempt: NoSuchArticle");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn describe<B: Fn(&E) -> Error>(self, describe: B) -> Run<'a, F, Fut, T, E, By<B>, C> {
        self.described_by(By(describe))
    }

    /// Retries only the errors for which the closure says `true`. For any other the call ends with [`RetryError::Permanent`](crate::RetryError::Permanent) at once, and its policy is not evaluated.
    ///
    /// `true` leaves the decision to the policy, which has limits and a classification of its own: what that calls permanent is not retried either, unless the policy has the code as [`transient`](crate::FullJitter).
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    ///
    /// use backstop_retry::{Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let call = retrier
    ///     .run(async |_| Err::<(), _>(Error::from(ErrorKind::ConnectionReset)))
    ///     .retry_if(|error| error.kind() == ErrorKind::TimedOut);
    /// let error = clock.block_on(call).unwrap_err();
    /// assert_eq!(error.to_string(), "permanent error after 1 attempt: ECONNRESET");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn retry_if<P: Fn(&E) -> bool>(
        self,
        retries: P,
    ) -> Run<'a, F, Fut, T, E, D, RetryIf<C, P>> {
        self.map(|describer, condition| (describer, RetryIf { condition, retries }))
    }

    /// Retries values for which the closure says `true`, such as a job that still runs. The attempt then counts as one that failed, with the code `NotReady`; a call that ends with it has no value.
    ///
    /// For a code of its own, or a time to wait, return an [`Error`] from the function.
    ///
    /// ```
    /// use backstop_retry::{Error, Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let status = async |attempt: u32| match attempt {
    ///     1 | 2 => Ok::<_, Error>("running"),
    ///     _ => Ok("done"),
    /// };
    /// let call = retrier
    ///     .run(|attempt| status(attempt.number()))
    ///     .retry_if_ok(|status| *status == "running");
    /// assert_eq!(clock.block_on(call).unwrap(), "done");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn retry_if_ok<P: Fn(&T) -> bool>(
        self,
        retries: P,
    ) -> Run<'a, F, Fut, T, E, D, RetryIfOk<C, P>> {
        self.map(|describer, condition| (describer, RetryIfOk { condition, retries }))
    }

    /// Describes the function's errors in another way.
    pub(crate) fn described_by<B>(self, describer: B) -> Run<'a, F, Fut, T, E, B, C> {
        self.map(|_, condition| (describer, condition))
    }

    /// The same call with another describer and condition.
    fn map<B, G>(self, change: impl FnOnce(D, C) -> (B, G)) -> Run<'a, F, Fut, T, E, B, G> {
        let (describer, condition) = change(self.describer, self.condition);
        Run {
            retrier: self.retrier,
            function: self.function,
            describer,
            condition,
            options: self.options,
            id: self.id,
            attributes: self.attributes,
            deadline: self.deadline,
            attempts: self.attempts,
            failing: self.failing,
            admission: self.admission,
            timer: self.timer,
            state: self.state,
            under_way: self.under_way,
            output: PhantomData,
        }
    }
}
