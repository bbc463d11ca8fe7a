//! What a store of records does: four operations, each a single conditional write.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::{Error, Timestamp};
use backstop_core::idempotency::RecordFormat;

/// The status of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The work has begun and its end is not recorded.
    InProgress,
    /// The work is done.
    Completed,
    /// The work is done, and its result is not stored.
    ResultNotStored,
}

/// A record as the store holds it.
///
/// ```
/// use backstop_idempotency::store::{Record, Status};
/// use backstop_idempotency::{Idempotency, MemoryStore};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::default());
/// let orders = Idempotency::builder(Arc::clone(&store), "orders").build()?;
/// orders.once(&7, || async { Ok::<_, std::io::Error>("shipped".to_owned()) }).await?;
/// let key = orders.key_for(&7)?.unwrap();
/// let record: Record = store.get(key.as_str()).unwrap();
/// assert_eq!((record.status, record.result.as_deref()), (Status::Completed, Some("\"shipped\"")));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whether the work is done.
    pub status: Status,
    /// When the record no longer counts, in seconds since 1970.
    pub expires: u64,
    /// When the lease of work in progress ends. Powertools writes none outside of Lambda.
    pub lease_until: Option<Timestamp>,
    /// The owner's token. Powertools writes none.
    pub owner: Option<String>,
    /// The result of completed work, as JSON text.
    pub result: Option<String>,
    /// Why the result of completed work is not stored.
    pub not_stored: Option<String>,
    /// The hash of the payload that a repeat must have.
    pub validation: Option<String>,
}

/// A new record of work that begins.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The record's key: prefix, `#` and hash.
    pub key: &'a str,
    /// A new token, the owner's alone.
    pub owner: &'a str,
    /// The time of day.
    pub now: Timestamp,
    /// When the lease ends.
    pub lease_until: Timestamp,
    /// When the record no longer counts, in seconds since 1970.
    pub expires: u64,
    /// The hash of the payload that a repeat must have.
    pub validation: Option<&'a str>,
    /// Whether the record of work in progress may be replaced once its lease is over.
    pub take_over: bool,
}

/// A longer lease.
#[derive(Debug, Clone, Copy)]
pub struct Renewal<'a> {
    /// The record's key.
    pub key: &'a str,
    /// The token that the record has to have.
    pub owner: &'a str,
    /// When the lease ends.
    pub lease_until: Timestamp,
    /// When the record no longer counts, in seconds since 1970.
    pub expires: u64,
}

/// The end of the work.
#[derive(Debug, Clone, Copy)]
pub struct Completion<'a> {
    /// The record's key.
    pub key: &'a str,
    /// The token that the record has to have.
    pub owner: &'a str,
    /// When the record no longer counts, in seconds since 1970.
    pub expires: u64,
    /// The result as JSON text, or why it is not stored.
    pub result: Result<&'a str, &'a str>,
}

/// The answer to a [`Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The key is the claim's: nobody had it, it had expired, or its lease was over and `take_over` is set.
    Yes {
        /// Whether there was a record of work in progress: its owner crashed or was cut off.
        taken_over: bool,
    },
    /// This record is in the way.
    No(Record),
}

/// An operation that the store did not carry out, or of which nobody knows.
#[derive(Debug, Clone, thiserror::Error)]
pub struct StoreError {
    /// What the store or the network answered.
    pub error: Error,
    /// Whether the operation may have been carried out.
    pub may_have_happened: bool,
    /// Whether the store refused the result for its size or form: it accepts the same operation without it.
    pub refused_result: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the idempotency store did not answer: {}", self.error)
    }
}

/// Holds records. Each operation is one conditional write, so that of two owners one wins.
///
/// Every operation may be sent twice: the token makes the second one harmless.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Whose records these are.
    fn format(&self) -> RecordFormat;

    /// Writes a claim if there is no record with this key; if there is one that has expired, unless it is in progress and `take_over` is not set; if there is one in progress whose lease has ended and `take_over` is set; or if it is the claim's own, in progress, and its lease ends no later than the claim's.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError>;

    /// Extends the lease of a record in progress, if it has this token. Returns whether it has. A lease never becomes shorter.
    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError>;

    /// Records the end of the work, if the record has this token. Returns whether it has.
    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError>;

    /// Deletes a record, if it is in progress and has this token.
    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError>;
}

/// A store that several hold.
#[async_trait]
impl<S: Store> Store for std::sync::Arc<S> {
    fn format(&self) -> RecordFormat {
        (**self).format()
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        (**self).renew(renewal).await
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        (**self).complete(completion).await
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        (**self).release(key, owner).await
    }
}

impl Record {
    /// How long the record keeps others out; at least a millisecond, since there was a record in the way.
    pub(crate) fn time_left(&self, now: Timestamp) -> Duration {
        let end = self
            .lease_until
            .unwrap_or(Timestamp(self.expires.saturating_mul(1_000)));
        end.since(now).max(Duration::from_millis(1))
    }

    /// Whether the lease of work in progress was over at this time: nobody knows whether the work was done.
    pub(crate) fn is_abandoned(&self, now: Timestamp) -> bool {
        let is_over = self.lease_until.is_some_and(|until| until < now);
        self.status == Status::InProgress && (is_over || self.expires < now.0 / 1_000)
    }
}

impl StoreError {
    /// No answer in time.
    pub(crate) fn timeout() -> Self {
        Self {
            error: Error::new("Timeout", "no answer in time"),
            may_have_happened: true,
            refused_result: false,
        }
    }
}
