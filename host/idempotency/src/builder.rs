//! Work that runs once for each key, and its builder.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::idempotency::{OnMissingKey, OnUnknown};
use backstop_time::Clock;
use serde::Serialize;

use crate::event::{Event, Path, PathError};
use crate::format::HashFunction;
use crate::key::{Key, KeyError};
use crate::observed::{Observed, Observer};
use crate::once::Once;
use crate::settings::Settings;
use crate::store::Store;

/// The shortest lease: two machines' clocks differ by less.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Why settings are invalid.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_idempotency::{BuildError, Idempotency, MemoryStore};
///
/// let orders = Idempotency::builder(MemoryStore::default(), "orders").lease(Duration::from_millis(5));
/// assert!(matches!(orders.build(), Err(BuildError::ShortLease(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Keys of different work need different prefixes.
    #[error("the prefix is empty: keys of different work would be the same")]
    EmptyPrefix,
    /// The lease is too short for clocks that differ.
    #[error("a lease of {0:?} is too short: at least a second")]
    ShortLease(Duration),
    /// The record would expire at once.
    #[error("records have to count for at least a second, not {0:?}")]
    ShortExpiry(Duration),
    /// A path cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Runs work once for each key. Cheap to clone; one for each kind of work.
#[derive(Debug, Clone)]
pub struct Idempotency(pub(crate) Arc<Settings>);

impl Idempotency {
    /// Settings to begin with. The prefix keeps the keys of different work apart. To share records with Powertools, it is what that library puts in front of `#`: its key prefix, or `{function name}.{module}.{qualified name}` in Python and the function's name in TypeScript.
    pub fn builder(store: impl Store, prefix: impl Into<String>) -> IdempotencyBuilder {
        IdempotencyBuilder {
            path_error: None,
            settings: Settings::new(store, prefix.into()),
        }
    }

    /// Runs the work unless it was done with this key before; then returns the stored result.
    ///
    /// The key is anything that serde writes as JSON. Awaiting the [`Once`] starts it.
    ///
    /// ```
    /// # use backstop_idempotency::{Idempotency, MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let idempotency = Idempotency::builder(MemoryStore::default(), "mail").build()?;
    /// let sent = idempotency
    ///     .once(&("welcome", 7), || async { Ok::<_, std::io::Error>("sent".to_owned()) })
    ///     .deadline(Duration::from_secs(30))
    ///     .await?;
    /// assert_eq!(sent.result, "sent");
    /// # Ok(())
    /// # }
    /// ```
    pub fn once<K: Serialize + ?Sized, W>(&self, key: &K, work: W) -> Once<'_, W> {
        Once::new(&self.0, Key::of(&self.0, key), work)
    }

    /// Runs the work unless it was done for an event with the same key before. [`IdempotencyBuilder::key`] says where the key is.
    ///
    /// ```
    /// # use backstop_idempotency::{Event, Idempotency, MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idempotency = Idempotency::builder(MemoryStore::default(), "orders")
    ///     .key("/order/id")
    ///     .validate("/order/total")
    ///     .build()?;
    /// let event = Event::parse(r#"{"order": {"id": "o-7", "total": 250}}"#)?;
    /// let shipped = idempotency
    ///     .once_for(&event, || async { Ok::<_, std::io::Error>(true) })
    ///     .await?;
    /// assert!(shipped.result);
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_for<W>(&self, event: &Event, work: W) -> Once<'_, W> {
        Once::new(&self.0, Key::of_event(&self.0, event), work)
    }

    /// Whether [`IdempotencyBuilder::key`] says where the key is in an event.
    pub fn finds_keys(&self) -> bool {
        self.0.key.is_some()
    }

    /// The key of this event: to look a record up. `None` if it has none and need not have one.
    pub fn key_of(&self, event: &Event) -> Result<Option<Key>, KeyError> {
        Key::of_event(&self.0, event)
    }

    /// The key that [`once`](Self::once) gives this value.
    pub fn key_for<K: Serialize + ?Sized>(&self, key: &K) -> Result<Option<Key>, KeyError> {
        Key::of(&self.0, key)
    }
}

/// Builds an [`Idempotency`].
///
/// ```
/// use std::time::Duration;
///
/// use backstop_idempotency::{Idempotency, MemoryStore};
///
/// let orders = Idempotency::builder(MemoryStore::default(), "orders")
///     .key("/order/id")
///     .validate("/order/total")
///     .lease(Duration::from_secs(20))
///     .expires_after(Duration::from_secs(60 * 24 * 60 * 60))
///     .build()?;
/// # Ok::<(), backstop_idempotency::BuildError>(())
/// ```
#[must_use = "it does nothing before `build`"]
#[derive(Debug)]
pub struct IdempotencyBuilder {
    settings: Settings,
    path_error: Option<PathError>,
}

impl IdempotencyBuilder {
    /// Where the key is in an event: a JSON pointer, or JMESPath with the feature `jmespath`.
    pub fn key(mut self, path: &str) -> Self {
        self.settings.key = self.path(path);
        self
    }

    /// What of an event has to be the same in a repeat. A repeat with another payload is refused with [`OnceError::PayloadMismatch`](crate::OnceError::PayloadMismatch).
    pub fn validate(mut self, path: &str) -> Self {
        self.settings.validate = self.path(path);
        self
    }

    /// How long a lease lasts. It is renewed at each third of it. The default is the time until the call's deadline, without renewals, and 20 s for a call without a deadline. A shorter lease lets another owner take over sooner after a crash, and is lost in a shorter outage of the store: one of half the lease does no harm.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// How long completed work is remembered: 30 days by default. It has to be longer than an event can come again: 14 days in a queue, and the longest delay of its policy, which is 14 days at most. Powertools has an hour.
    pub fn expires_after(mut self, duration: Duration) -> Self {
        self.settings.expires_after = duration;
        self
    }

    /// How long one request to the store may take: 5 s by default. A claim that takes longer fails, a renewal and the end of the work are sent again.
    pub fn request_timeout(mut self, duration: Duration) -> Self {
        self.settings.request_timeout = duration;
        self
    }

    /// How long the end of the work is written again while the store does not answer: a minute by default, and never beyond the call's deadline.
    pub fn record_timeout(mut self, duration: Duration) -> Self {
        self.settings.record_timeout = duration;
        self
    }

    /// What happens to work whose owner crashed.
    ///
    /// ```
    /// use backstop_idempotency::{Idempotency, MemoryStore, OnUnknown};
    ///
    /// let payments = Idempotency::builder(MemoryStore::default(), "payments")
    ///     .on_unknown(OnUnknown::DeadLetter)
    ///     .build()?;
    /// # Ok::<(), backstop_idempotency::BuildError>(())
    /// ```
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.settings.on_unknown = on_unknown;
        self
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
    pub fn on_missing_key(mut self, on_missing_key: OnMissingKey) -> Self {
        self.settings.on_missing_key = on_missing_key;
        self
    }

    /// The hash in keys and validations.
    pub fn hash(mut self, function: HashFunction) -> Self {
        self.settings.hash = function;
        self
    }

    /// Receives what each call found, for metrics. It is called while the call waits, so it must not block.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// use backstop_idempotency::{Idempotency, MemoryStore, Observed};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let repeats = Arc::new(AtomicU64::new(0));
    /// let counted = Arc::clone(&repeats);
    /// let idempotency = Idempotency::builder(MemoryStore::default(), "mail")
    ///     .observe(move |observed| {
    ///         if observed == Observed::Repeated {
    ///             counted.fetch_add(1, Relaxed);
    ///         }
    ///     })
    ///     .build()?;
    /// for _ in 0..3 {
    ///     idempotency.once("welcome", || async { Ok::<_, std::io::Error>(()) }).await?;
    /// }
    /// assert_eq!(repeats.load(Relaxed), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(mut self, observer: impl Fn(Observed) + Send + Sync + 'static) -> Self {
        self.settings.observer = Observer(Arc::new(observer));
        self
    }

    /// The clock; tokio's by default.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backstop_idempotency::{Clock, Idempotency, MemoryStore, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let orders = Idempotency::builder(MemoryStore::default(), "orders")
    ///     .clock(clock.clone())
    ///     .build()?;
    /// let ship = || async {
    ///     clock.sleep(Duration::from_secs(3_600)).await;
    ///     Ok::<_, std::io::Error>("shipped".to_owned())
    /// };
    /// let minute = Duration::from_secs(60);
    /// let late = clock.block_on(orders.once("order-7", ship).deadline(minute).into_future());
    /// assert!(late.is_err());
    /// assert_eq!(clock.elapsed(), minute);
    /// # Ok::<(), backstop_idempotency::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<Idempotency, BuildError> {
        let settings = self.settings;
        if let Some(error) = self.path_error {
            return Err(error.into());
        }
        if settings.prefix.is_empty() {
            return Err(BuildError::EmptyPrefix);
        }
        if let Some(lease) = settings.lease.filter(|it| *it < SHORTEST_LEASE) {
            return Err(BuildError::ShortLease(lease));
        }
        if settings.expires_after < Duration::from_secs(1) {
            return Err(BuildError::ShortExpiry(settings.expires_after));
        }
        Ok(Idempotency(Arc::new(settings)))
    }

    fn path(&mut self, path: &str) -> Option<Path> {
        match path.parse() {
            Ok(path) => Some(path),
            Err(error) => {
                self.path_error.get_or_insert(error);
                None
            }
        }
    }
}
