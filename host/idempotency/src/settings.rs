//! The settings of idempotent work.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::idempotency::{EXPIRES_AFTER, OnMissingKey, OnUnknown};
use backstop_time::{Clock, TokioClock};

use crate::event::Path;
use crate::format::HashFunction;
use crate::json::Json;
use crate::observed::{Observed, Observer};
use crate::store::Store;

/// How long the end of work without a deadline is written again while the store does not answer.
const RECORD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one request to the store may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

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
        self.hash.hash(self.store.format(), value)
    }

    pub(crate) fn observe(&self, observed: Observed) {
        (self.observer.0)(observed);
    }
}
