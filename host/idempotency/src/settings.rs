//! The settings of idempotent work.

use std::sync::Arc;
use std::time::Duration;

use backstop_time::{Clock, TokioClock};

use crate::event::Path;
use crate::format::HashFunction;
use crate::json::Json;
use crate::observed::{Observed, Observer};
use crate::store::Store;

/// The lease of work without a deadline. It is renewed at each third of it: a store that does not answer for ten seconds ends none.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// How long a completed record counts: SQS keeps a message for 14 days at most, a policy delays it for 14 days at most, and two days are left.
const EXPIRES_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the end of work without a deadline is written again while the store does not answer.
const RECORD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one request to the store may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What happens to work that may or may not have been done: its owner crashed, or was cut off from the store until its lease was over.
///
/// ```
/// use backstop_idempotency::{Idempotency, MemoryStore, OnUnknown};
///
/// let payments = Idempotency::builder(MemoryStore::default(), "payments")
///     .on_unknown(OnUnknown::DeadLetter)
///     .build()?;
/// # Ok::<(), backstop_idempotency::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// It is done again, as in Powertools. For work that may rather happen twice than never.
    #[default]
    Retry,
    /// It is refused with [`OnceError::OutcomeUnknown`](crate::OnceError::OutcomeUnknown), which is permanent, until somebody deletes its record, which never expires. For work that may rather not happen than twice.
    DeadLetter,
}

/// What happens to an event without a key.
///
/// ```
/// use backstop_idempotency::{Event, Idempotency, MemoryStore, OnMissingKey};
///
/// let orders = Idempotency::builder(MemoryStore::default(), "orders")
///     .key("/id")
///     .on_missing_key(OnMissingKey::NotIdempotent)
///     .build()?;
/// assert_eq!(orders.key_of(&Event::parse("{}")?)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissingKey {
    /// It is refused with [`KeyError::Missing`](crate::KeyError::Missing).
    #[default]
    Error,
    /// Its work is done without a record, each time.
    NotIdempotent,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prefix: String,
    pub(crate) hash: HashFunction,
    pub(crate) key: Option<Path>,
    pub(crate) validate: Option<Path>,
    pub(crate) lease: Option<Duration>,
    pub(crate) expires_after: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) record_timeout: Duration,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) on_missing_key: OnMissingKey,
    pub(crate) observer: Observer,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(store: impl Store, prefix: String) -> Self {
        Self {
            store: Arc::new(store),
            clock: Arc::new(TokioClock),
            prefix,
            hash: HashFunction::default(),
            key: None,
            validate: None,
            lease: None,
            expires_after: EXPIRES_AFTER,
            request_timeout: REQUEST_TIMEOUT,
            record_timeout: RECORD_TIMEOUT,
            on_unknown: OnUnknown::default(),
            on_missing_key: OnMissingKey::default(),
            observer: Observer::default(),
        }
    }

    pub(crate) fn hash(&self, value: &Json) -> String {
        self.store.format().hash(self.hash, value)
    }

    pub(crate) fn observe(&self, observed: Observed) {
        (self.observer.0)(observed);
    }
}
