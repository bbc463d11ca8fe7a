//! The settings of a delivery.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::policy::{FullJitter, Policy};

use crate::target::Target;

/// What happens to the rest of a group when one of its entries is not delivered.
///
/// ```
/// use backstop_deliver::AfterFailure;
///
/// // Order matters more than speed, unless a program says otherwise.
/// assert_eq!(AfterFailure::default(), AfterFailure::StopGroup);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterFailure {
    /// The rest is not sent, and ends as [`HeldBack`](crate::Undelivered::HeldBack). When the undelivered entries are delivered again later, the order is still right. Each such group costs 16 bytes of memory until the delivery ends.
    #[default]
    StopGroup,
    /// The rest is sent.
    GoOn,
}

/// A delivery to a [`Target`]: its policy and its limits.
///
/// The defaults suit SQS and DynamoDB: 16 requests in flight, and a policy that retries for 15 minutes with full jitter, from 100 ms up to 20 s.
///
/// ```
/// use std::time::Duration;
/// use backstop_deliver::policy::by_name;
/// use backstop_deliver::{AfterFailure, Delivery};
/// # fn settings<T: backstop_deliver::Target>(target: T) -> Result<Delivery<T>, Box<dyn std::error::Error>> {
/// let policy = by_name("equal-jitter", &[("base", "50ms"), ("max-attempts", "10")].into())?;
/// let delivery = Delivery::new(target)
///     .policy(policy)
///     .requests(32)
///     .max_held(5_000, 16 << 20)
///     .linger(Duration::from_millis(50))
///     .after_failure(AfterFailure::GoOn);
/// # Ok(delivery) }
/// ```
#[must_use = "it delivers nothing before it is run"]
pub struct Delivery<T> {
    pub(crate) target: Arc<T>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) requests: usize,
    pub(crate) max_entries: usize,
    pub(crate) max_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) after_failure: AfterFailure,
    pub(crate) seed: u64,
    pub(crate) stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T: Target> Delivery<T> {
    /// A delivery with the defaults.
    pub fn new(target: T) -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        let policy = FullJitter::default()
            .base(Duration::from_millis(100))
            .cap(Duration::from_secs(20))
            .max_age(15 * MINUTE);
        Self {
            target: Arc::new(target),
            policy: Arc::new(policy),
            requests: 16,
            max_entries: 10_000,
            max_bytes: 64 << 20,
            linger: Duration::from_millis(10),
            after_failure: AfterFailure::default(),
            seed: RandomState::new().hash_one(0),
            stop: None,
        }
    }

    /// The policy that decides whether and when a failed entry is sent again. A dead letter and a discard both end as [`GivenUp`](crate::Undelivered::GivenUp).
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// The most requests in flight, at least 1; 16 by default.
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests.max(1);
        self
    }

    /// The most entries, and the most of their bytes, that are taken from the input and have no outcome: in flight, delayed, or behind another entry of their group. 10,000 entries and 64 MiB by default.
    ///
    /// The next entry is not taken before there is room, so that one entry can exceed the bytes. Entries that are delayed for a long time fill it up.
    pub fn max_held(mut self, entries: usize, bytes: usize) -> Self {
        (self.max_entries, self.max_bytes) = (entries.max(1), bytes.max(1));
        self
    }

    /// How long a request that is not full waits for more entries; 10 ms by default.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// What happens to the rest of a group when one of its entries is not delivered.
    pub fn after_failure(mut self, after_failure: AfterFailure) -> Self {
        self.after_failure = after_failure;
        self
    }

    /// The number that all jitter follows from: a random one by default. With the same number, tests get the same delays.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Stops the delivery when this future is ready, as [`Deliveries::stop`](crate::Deliveries::stop) does: requests in flight are finished, and everything else ends as [`Stopped`](crate::Undelivered::Stopped).
    ///
    /// ```
    /// # use backstop_deliver::{Delivery, Target};
    /// # fn stop<T: Target>(delivery: Delivery<T>) -> Delivery<T> {
    /// delivery.stop_when(async {
    ///     let _ = tokio::signal::ctrl_c().await;
    /// })
    /// # }
    /// ```
    pub fn stop_when(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Some(Box::pin(stop));
        self
    }
}

backstop_core::shown!(Delivery<T>, delivery =>
    policy = delivery.policy, requests = delivery.requests, max_entries = delivery.max_entries,
    max_bytes = delivery.max_bytes, linger = delivery.linger,
    after_failure = delivery.after_failure
);
