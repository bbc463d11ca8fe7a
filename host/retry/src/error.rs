//! How a call ends without success: [`RetryError`].

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use backstop_core::call;
pub use backstop_core::call::End;
use backstop_core::decision::Decision;
use backstop_core::failure::Error;

use crate::describe::Describe;
use crate::refusal::Refusal;

/// Why a call ended without success. The function's own last error is inside: [`into_inner`](Self::into_inner).
///
/// ```
/// use std::io;
///
/// use backstop_retry::{Retrier, RetryError, TestClock};
///
/// let clock = TestClock::new();
/// let retrier = Retrier::builder().clock(clock.clone()).build()?;
/// let call = retrier.run(|_| async { Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut)) });
///
/// match clock.block_on(call).unwrap_err() {
///     RetryError::GaveUp(end) => {
///         assert_eq!(end.attempts(), 3);
///         assert_eq!(end.into_inner().unwrap().kind(), io::ErrorKind::TimedOut);
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RetryError<E> {
    /// The deadline came, or would have come before the next attempt.
    DeadlineExceeded(Ended<E>),
    /// The policy allowed a retry, but the retry budget did not.
    BudgetExhausted(Ended<E>),
    /// The [breaker](crate::breaker) refused the next attempt, or the first one: what is called is down.
    BreakerOpen(Ended<E>),
    /// The [bulkhead](crate::Bulkhead) had no place for the next attempt, or the first one, and the retrier does not wait for one.
    BulkheadFull(Ended<E>),
    /// The policy says that every further attempt would fail.
    Permanent(Ended<E>),
    /// The policy, or the retrier's own limit of attempts, allows no further attempt.
    GaveUp(Ended<E>),
}

/// The state of a call at its end.
///
/// ```
/// use backstop_retry::decision::ErrorClass;
/// use backstop_retry::{Error, Retrier, TestClock};
///
/// let clock = TestClock::new();
/// let retrier = Retrier::builder().clock(clock.clone()).build()?;
/// let call = retrier.run(|_| async { Err::<(), _>(Error::new("ThrottlingException", "slow down")) });
/// let error = clock.block_on(call).unwrap_err();
///
/// let ended = error.ended();
/// assert_eq!(ended.attempts(), 3);
/// assert_eq!(ended.decision().unwrap().class, ErrorClass::Throttled);
/// assert_eq!(ended.time_left(), None);
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
pub struct Ended<E>(Box<State<E>>);

/// An error of the function as one of the standard library's, if it is one.
pub(crate) type AsError<E> = fn(&E) -> Option<&(dyn StdError + 'static)>;

pub(crate) struct State<E> {
    pub(crate) attempts: u32,
    pub(crate) error: Option<E>,
    pub(crate) as_error: AsError<E>,
    pub(crate) description: Option<Error>,
    pub(crate) decision: Option<Decision>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) time_left: Option<Duration>,
}

impl<E> Ended<E> {
    /// The attempts that were made, including one that was cut short.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The last error that the function returned. `None` if it never returned one: the deadline had passed before the first attempt, or every attempt was cut short by a timeout.
    pub fn error(&self) -> Option<&E> {
        self.0.error.as_ref()
    }

    /// The last error that the function returned, see [`error`](Self::error).
    pub fn into_inner(self) -> Option<E> {
        self.0.error
    }

    /// The last failure as the policy received it, with its code and its status; `retry_after` is what the service asked for, also if it is more than the policy saw. Differs from [`error`](Self::error) if a timeout cut the last attempt short: its code is then `Timeout`.
    pub fn description(&self) -> Option<&Error> {
        self.0.description.as_ref()
    }

    /// The decision on the last failure: class, verdict, the delay that was wanted, and who decided. `None` if there was none: the deadline cut the first attempt short, or came before it.
    pub fn decision(&self) -> Option<&Decision> {
        self.0.decision.as_ref()
    }

    /// The time that was left until the deadline. `None` without a deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.0.time_left
    }

    /// The name of the breaker or the bulkhead that refused the attempt. `None` for other ends.
    pub fn refused_by(&self) -> Option<&str> {
        self.0.refusal.as_ref().map(|refusal| &*refusal.by)
    }

    /// The time from the end of the call until the next probe of the breaker that refused the attempt. `None` for other ends, and for a breaker that already lets a few attempts through.
    pub fn next_probe(&self) -> Option<Duration> {
        self.0.refusal.as_ref()?.next_probe
    }
}

impl<E> RetryError<E> {
    pub(crate) fn new(end: End, state: State<E>) -> Self {
        let ended = Ended(Box::new(state));
        match end {
            End::DeadlineExceeded => Self::DeadlineExceeded(ended),
            End::BudgetExhausted => Self::BudgetExhausted(ended),
            End::BreakerOpen => Self::BreakerOpen(ended),
            End::BulkheadFull => Self::BulkheadFull(ended),
            End::Permanent => Self::Permanent(ended),
            End::GaveUp => Self::GaveUp(ended),
            // Clippy names an end that has no arm.
            _ => Self::GaveUp(ended),
        }
    }

    /// Which of them it is.
    pub fn end(&self) -> End {
        match self {
            Self::DeadlineExceeded(_) => End::DeadlineExceeded,
            Self::BudgetExhausted(_) => End::BudgetExhausted,
            Self::BreakerOpen(_) => End::BreakerOpen,
            Self::BulkheadFull(_) => End::BulkheadFull,
            Self::Permanent(_) => End::Permanent,
            Self::GaveUp(_) => End::GaveUp,
        }
    }

    /// The state of the call at its end.
    pub fn ended(&self) -> &Ended<E> {
        match self {
            Self::DeadlineExceeded(ended)
            | Self::BudgetExhausted(ended)
            | Self::BreakerOpen(ended)
            | Self::BulkheadFull(ended)
            | Self::Permanent(ended)
            | Self::GaveUp(ended) => ended,
        }
    }

    /// See [`Ended::attempts`].
    pub fn attempts(&self) -> u32 {
        self.ended().attempts()
    }

    /// See [`Ended::error`].
    pub fn error(&self) -> Option<&E> {
        self.ended().error()
    }

    /// See [`Ended::into_inner`].
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::DeadlineExceeded(ended)
            | Self::BudgetExhausted(ended)
            | Self::BreakerOpen(ended)
            | Self::BulkheadFull(ended)
            | Self::Permanent(ended)
            | Self::GaveUp(ended) => ended.into_inner(),
        }
    }

    /// See [`Ended::description`].
    pub fn description(&self) -> Option<&Error> {
        self.ended().description()
    }

    /// See [`Ended::decision`].
    pub fn decision(&self) -> Option<&Decision> {
        self.ended().decision()
    }

    /// See [`Ended::time_left`].
    pub fn time_left(&self) -> Option<Duration> {
        self.ended().time_left()
    }
}

/// One line without control characters, whatever the error's code: `gave up after 3 attempts: max-attempts of 3 reached: HTTP 503`
impl<E> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

impl<E> RetryError<E> {
    /// The state of the call, without the function's own error.
    fn summary(&self) -> call::Ended<'_> {
        let ended = self.ended();
        call::Ended {
            end: self.end(),
            attempts: ended.attempts(),
            description: ended.description(),
            decision: ended.decision(),
            refused_by: ended.refused_by(),
            next_probe: ended.next_probe(),
            time_left: ended.time_left(),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for Ended<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("attempts", &self.0.attempts)
            .field("error", &self.0.error)
            .field("description", &self.0.description)
            .field("decision", &self.0.decision)
            .field("refusal", &self.0.refusal)
            .field("time_left", &self.0.time_left)
            .finish()
    }
}

/// The last failure, as a policy receives it, with the call's end in its message: for a handler of a queue, a Lambda function, or a retrier around this one. Its details have `attempts` and `end`.
///
/// The code is the one of the last failure, so that what is worth a retry there is worth one here. If there was no failure, it is `Timeout` since the deadline came before the first attempt, or `BreakerOpen` or `BulkheadFull` with the status 503. The next probe of a breaker is its `retry_after`, unless the last failure asked for more.
impl<E> From<&RetryError<E>> for Error {
    fn from(error: &RetryError<E>) -> Self {
        error.summary().as_failure()
    }
}

/// See the conversion from a reference: for `?` in a handler.
impl<E> From<RetryError<E>> for Error {
    fn from(error: RetryError<E>) -> Self {
        Self::from(&error)
    }
}

impl<E: fmt::Debug + 'static> Describe for RetryError<E> {
    fn describe(&self) -> Error {
        self.into()
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

/// The source is the function's own last error if that is a standard error ([`Describe::as_error`]) or a `Box<dyn Error>`, else the last failure as the policy received it. So `?` works for a function with any error, also in one that returns `Box<dyn Error>` or `anyhow::Error`.
///
/// ```
/// use std::error::Error;
///
/// use backstop_retry::{Retrier, TestClock};
///
/// fn read(clock: &TestClock) -> Result<String, Box<dyn Error + Send + Sync>> {
///     let retrier = Retrier::builder().clock(clock.clone()).build()?;
///     let text = clock.block_on(retrier.run(async |_| {
///         let text = std::fs::read_to_string("/no/such/file")?;
///         Ok::<_, Box<dyn Error + Send + Sync>>(text)
///     }))?;
///     Ok(text)
/// }
///
/// let error = read(&TestClock::new()).unwrap_err();
/// assert_eq!(error.to_string(), "permanent error after 1 attempt: NotFound");
/// assert!(error.source().unwrap().is::<std::io::Error>());
/// ```
impl<E: fmt::Debug> StdError for RetryError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let Ended(state) = self.ended();
        let error = state.error.as_ref().and_then(state.as_error);
        error.or_else(|| Some(state.description.as_ref()?))
    }
}
