//! Why a call has no result, and what a policy sees of it.

use std::convert::Infallible;
use std::time::Duration;

use backstop_core::failure::{Error, IN_PROGRESS, Milliseconds};

use crate::key::KeyError;
use crate::store::StoreError;

/// The longest time after which a call is tried again whose work is in progress elsewhere. Most work ends long before its lease.
const LONGEST_HINT: Duration = Duration::from_millis(500);

backstop_core::names! {
    /// How a lease ended before the work did.
    ///
    /// ```
    /// use backstop_idempotency::LeaseEnd;
    ///
    /// assert_eq!(LeaseEnd::NotRenewed.to_string(), "it was not renewed in time");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum LeaseEnd {
        /// The call's deadline came.
        Deadline = "the deadline came",
        /// The store did not answer until the lease was over, or this process was paused for so long.
        NotRenewed = "it was not renewed in time",
        /// The record has another owner, or is gone.
        TakenOver = "another owner has the record",
    }
}

/// Why a call has no result.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_idempotency::failure::Milliseconds;
/// use backstop_idempotency::{Error, OnceError};
///
/// let elsewhere: OnceError<Error> = OnceError::InProgress { left: Duration::from_secs(5) };
/// // What a policy sees: try again soon, since the work is mostly done long before the end of the lease.
/// let failure = elsewhere.to_failure(Clone::clone);
/// assert_eq!(failure.code, "InProgress");
/// assert_eq!(failure.retry_after, Some(Milliseconds(500)));
/// ```
///
/// The work's own error is the source of [`Work`](Self::Work). For work that fails with a `Box<dyn Error>` or an `anyhow::Error`, which are no standard errors themselves, [`boxed`](Self::boxed) makes an error for `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work failed with this error. Its record is deleted, so that it can be done again.
    #[error("the work failed")]
    Work(#[source] E),
    /// Another owner does this work now.
    #[error("the same work is in progress elsewhere; its lease ends in {left:?}")]
    InProgress {
        /// When its lease ends, unless it is renewed.
        left: Duration,
    },
    /// A repeat has another payload than the record. [`IdempotencyBuilder::validate`](crate::IdempotencyBuilder::validate) says what is compared.
    #[error("the payload is not that of the record with the same idempotency key")]
    PayloadMismatch,
    /// The lease of the owner ran out: the work may or may not have been done, and [`OnUnknown::DeadLetter`](crate::OnUnknown::DeadLetter) says not to do it again.
    #[error("the work may have been done: its owner `{owner}` did not record its end")]
    OutcomeUnknown {
        /// The owner's token, or `unknown` for one of Powertools.
        owner: String,
    },
    /// The work was stopped, or its result ignored: it no longer had the lease.
    #[error("the work was stopped without its lease: {0}")]
    LeaseEnded(LeaseEnd),
    /// The store did not answer. The work was not done.
    #[error(transparent)]
    Store(StoreError),
    /// The event has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The work is done, and its result is not stored: it is too large for an item of DynamoDB (400 KB), has a number that DynamoDB does not hold, or is no JSON. The call that did the work gets this error, and so does each repeat.
    #[error("the work is done, and its result is not stored: {reason}")]
    ResultNotStored {
        /// What was wrong with the result.
        reason: String,
    },
    /// The work was done before, and its result cannot be read as the result of this call.
    #[error("the work was done before; its result cannot be read: {0}")]
    Result(serde_json::Error),
}

impl<E> OnceError<E> {
    /// Whether the work is done all the same: only its result is missing.
    pub fn is_work_done(&self) -> bool {
        matches!(self, Self::ResultNotStored { .. } | Self::Result(_))
    }

    /// The error as one of any kind: the work's own, or this one.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use backstop_idempotency::{Idempotency, MemoryStore, OnceError};
    ///
    /// type AnyError = Box<dyn Error + Send + Sync>;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), AnyError> {
    /// async fn charge() -> Result<u64, AnyError> {
    ///     Err("the card is declined".into())
    /// }
    ///
    /// async fn charge_once(idempotency: &Idempotency) -> Result<u64, AnyError> {
    ///     let charged = idempotency.once("order-7", charge).await;
    ///     Ok(charged.map_err(OnceError::boxed)?.result)
    /// }
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::default(), "payments").build()?;
    /// let error = charge_once(&idempotency).await.unwrap_err();
    /// assert_eq!(error.to_string(), "the card is declined");
    /// # Ok(())
    /// # }
    /// ```
    pub fn boxed(self) -> Box<dyn std::error::Error + Send + Sync>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let other: OnceError<Infallible> = match self {
            Self::Work(error) => return error.into(),
            Self::InProgress { left } => OnceError::InProgress { left },
            Self::PayloadMismatch => OnceError::PayloadMismatch,
            Self::OutcomeUnknown { owner } => OnceError::OutcomeUnknown { owner },
            Self::LeaseEnded(end) => OnceError::LeaseEnded(end),
            Self::Store(error) => OnceError::Store(error),
            Self::Key(error) => OnceError::Key(error),
            Self::ResultNotStored { reason } => OnceError::ResultNotStored { reason },
            Self::Result(error) => OnceError::Result(error),
        };
        other.into()
    }

    /// What a policy sees: `describe` describes an error of the work.
    ///
    /// | error | code | status | class by default |
    /// |---|---|---|---|
    /// | `InProgress` | `InProgress`, with the time left as `retry-after`, half a second at most | 503 | transient |
    /// | `PayloadMismatch` | `IdempotencyPayloadMismatch` | 422 | permanent |
    /// | `OutcomeUnknown` | `IdempotencyOutcomeUnknown` | 409 | permanent |
    /// | `LeaseEnded` | `IdempotencyLeaseEnded` | 503 | transient |
    /// | `Store` | `IdempotencyStoreUnavailable` | 503 | transient |
    /// | `Key` | `IdempotencyKeyMissing` | 400 | permanent |
    /// | `ResultNotStored` | `IdempotencyResultNotStored` | 422 | permanent |
    /// | `Result` | `IdempotencyResultUnreadable` | 422 | permanent |
    ///
    /// The default classification knows the codes: the class is the same where only the code arrives, as from a Lambda function.
    pub fn to_failure(&self, describe: impl FnOnce(&E) -> Error) -> Error {
        let (code, status) = match self {
            Self::Work(error) => return describe(error).within_bounds(),
            Self::InProgress { .. } => (IN_PROGRESS, 503),
            Self::PayloadMismatch => ("IdempotencyPayloadMismatch", 422),
            Self::OutcomeUnknown { .. } => ("IdempotencyOutcomeUnknown", 409),
            Self::LeaseEnded(_) => ("IdempotencyLeaseEnded", 503),
            Self::Store(_) => ("IdempotencyStoreUnavailable", 503),
            Self::Key(_) => ("IdempotencyKeyMissing", 400),
            Self::ResultNotStored { .. } => ("IdempotencyResultNotStored", 422),
            Self::Result(_) => ("IdempotencyResultUnreadable", 422),
        };
        let mut failure = Error::new(code, self.to_string()).status(status);
        if let Self::InProgress { left } = self {
            let hint = Milliseconds::from_duration((*left).min(LONGEST_HINT));
            failure.retry_after = Some(hint);
            // The same for each message that waits for this work.
            failure.message = "the same work is in progress elsewhere".to_owned();
        }
        if let Self::Result(wrong) = self {
            failure.message = wrong.to_string();
        }
        failure.within_bounds()
    }
}

/// The error as a policy receives it, for work that fails with such errors.
///
/// ```
/// use backstop_idempotency::{Error, OnceError};
///
/// let error: OnceError<Error> = OnceError::PayloadMismatch;
/// assert_eq!(Error::from(error).code, "IdempotencyPayloadMismatch");
/// ```
impl From<OnceError<Error>> for Error {
    fn from(error: OnceError<Error>) -> Self {
        error.to_failure(Self::clone)
    }
}

#[cfg(test)]
mod tests {
    use backstop_core::decision::ErrorClass;
    use backstop_core::fallback::class_of;

    use super::*;

    #[test]
    fn the_source_is_the_works_own_error() {
        use std::error::Error as _;
        use std::io;

        let error = OnceError::Work(io::Error::from(io::ErrorKind::NotFound));
        let source = error.source().unwrap();
        let source = source.downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "the work failed");
        // Not twice in a chain of causes.
        assert_eq!(
            backstop_core::text::chain(&error),
            "the work failed: entity not found"
        );

        let missing: OnceError<io::Error> = OnceError::Key(KeyError::Missing);
        assert_eq!(missing.boxed().to_string(), KeyError::Missing.to_string());
    }

    /// A Lambda function reports the code alone.
    #[test]
    fn each_error_has_the_same_class_with_and_without_its_status() {
        let unreadable = serde_json::from_str::<u32>("x").unwrap_err();
        let away = StoreError::timeout();
        for (error, class) in [
            (
                OnceError::InProgress {
                    left: Duration::from_secs(1),
                },
                ErrorClass::Transient,
            ),
            (
                OnceError::LeaseEnded(LeaseEnd::Deadline),
                ErrorClass::Transient,
            ),
            (OnceError::Store(away), ErrorClass::Transient),
            (OnceError::PayloadMismatch, ErrorClass::Permanent),
            (
                OnceError::OutcomeUnknown {
                    owner: "unknown".to_owned(),
                },
                ErrorClass::Permanent,
            ),
            (OnceError::Key(KeyError::Missing), ErrorClass::Permanent),
            (
                OnceError::ResultNotStored {
                    reason: String::new(),
                },
                ErrorClass::Permanent,
            ),
            (OnceError::Result(unreadable), ErrorClass::Permanent),
        ] {
            let Error { code, status, .. } = error.into();
            assert_eq!(class_of(&code, status), class, "{code}");
            assert_eq!(class_of(&code, None), class, "{code}");
        }
    }
}
