//! The retry budget: a bucket of tokens that any number of retriers share.
//!
//! While a dependency fails, retries multiply the load on it. A budget bounds them: each retry takes tokens, and only successes and time bring tokens back. A call whose retry finds too few of them ends with [`RetryError::BudgetExhausted`](crate::RetryError::BudgetExhausted) at once.
//!
//! # Rules
//!
//! - A **retry** takes its cost when it is decided, before its delay. The cost depends on the class of the error. A first attempt is free.
//! - A retry that **succeeds** gives back what it took. A first attempt that succeeds adds [`first_success`](BudgetSettings::first_success).
//! - A retry that **fails** has used its tokens up.
//! - A call that is **dropped** while it waits gives back what its retry took, since no request was sent. One that is dropped during the attempt does not: the request has reached the dependency. A retry that finds the deadline over after its delay gives its tokens back too.
//! - **Time** adds [`refill_per_second`](BudgetSettings::refill_per_second).
//! - The bucket never holds more than its **capacity**.
//! - With too few tokens, a retry may come from the **floor**: [`floor_per_second`](BudgetSettings::floor_per_second) retries a second over all retriers, saved up for one second. Otherwise a program with few calls could never retry again after an outage. Such a retry takes no tokens; if it succeeds, it adds what a first success adds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backstop_core::decision::ErrorClass;
use metrics::{Counter, Gauge};

pub use crate::budget_settings::BudgetSettings;
use crate::telemetry;

/// The unit in which tokens are counted, so that a slow refill is exact too.
const MICRO: u64 = 1_000_000;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A retry budget, shared by all of its clones. See the [rules](crate::budget).
///
/// ```
/// use backstop_retry::{Budget, Retrier};
///
/// let budget = Budget::aws_2_1();
/// let reads = Retrier::builder().name("reads").budget(&budget).build()?;
/// let writes = Retrier::builder().name("writes").budget(&budget).build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Bucket>);

struct Bucket {
    name: Arc<str>,
    settings: BudgetSettings,
    /// In millionths.
    capacity: u64,
    /// In millionths.
    tokens: AtomicU64,
    /// When time began for this bucket: at its first retry.
    epoch: OnceLock<Instant>,
    /// Until when time has been turned into tokens, in nanoseconds since the epoch.
    refilled: AtomicU64,
    /// When the floor is full again, in nanoseconds since the epoch. Each retry from it moves this on by one interval.
    floor_full: AtomicU64,
    left: Gauge,
    refusals: Counter,
}

impl Budget {
    /// A full budget with these numbers. `name` is the label of its metrics.
    pub fn new(name: &str, settings: BudgetSettings) -> Self {
        let name: Arc<str> = name.into();
        let capacity = u64::from(settings.capacity) * MICRO;
        let budget = Self(Arc::new(Bucket {
            settings,
            capacity,
            tokens: AtomicU64::new(capacity),
            epoch: OnceLock::new(),
            refilled: AtomicU64::new(0),
            floor_full: AtomicU64::new(0),
            left: telemetry::budget_tokens(&name),
            refusals: telemetry::budget_refusals(&name),
            name,
        }));
        budget.0.show();
        budget
    }

    /// A budget with the numbers of [`BudgetSettings::AWS_2_0`], named `aws-2.0`.
    pub fn aws_2_0() -> Self {
        Self::new("aws-2.0", BudgetSettings::AWS_2_0)
    }

    /// A budget with the numbers of [`BudgetSettings::AWS_2_1`], named `aws-2.1`.
    pub fn aws_2_1() -> Self {
        Self::new("aws-2.1", BudgetSettings::AWS_2_1)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its numbers.
    pub fn settings(&self) -> &BudgetSettings {
        &self.0.settings
    }

    /// The tokens that are left. Time that has passed since the last retry is not included.
    pub fn left(&self) -> f64 {
        self.0.left()
    }

    /// Takes what a retry after an error of this class costs. `None` if there are too few tokens and the floor is used up.
    pub(crate) fn take(&self, class: &ErrorClass, now: Instant) -> Option<Reservation> {
        let bucket = &self.0;
        let epoch = *bucket.epoch.get_or_init(|| now);
        let now = nanoseconds(now.saturating_duration_since(epoch));
        bucket.refill(now);
        let cost = u64::from(bucket.settings.cost(class)) * MICRO;
        let taken = if bucket.take_tokens(cost) {
            Some(Taken::Tokens(cost))
        } else {
            bucket.take_from_floor(now).map(Taken::Floor)
        };
        bucket.show();
        match taken {
            Some(taken) => Some(Reservation {
                bucket: Arc::clone(bucket),
                taken,
                is_sent: false,
            }),
            None => {
                bucket.refusals.increment(1);
                None
            }
        }
    }

    /// Adds what a successful first attempt adds. Costs one load if the bucket is full.
    pub(crate) fn first_succeeded(&self) {
        self.0.first_succeeded();
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.0.name)
            .field("left", &self.left())
            .field("settings", &self.0.settings)
            .finish()
    }
}

impl Bucket {
    fn left(&self) -> f64 {
        let tokens = self.tokens.load(Ordering::Relaxed);
        #[expect(
            clippy::cast_precision_loss,
            reason = "2^32 tokens in millionths have 52 bits"
        )]
        let tokens = tokens as f64 / MICRO as f64;
        tokens
    }

    /// Shows what is left in the metrics.
    fn show(&self) {
        self.left.set(self.left());
    }

    fn add(&self, amount: u64) {
        let add = |tokens: u64| {
            let more = tokens.saturating_add(amount).min(self.capacity);
            (more != tokens).then_some(more)
        };
        let added = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if added.is_ok() {
            self.show();
        }
    }

    fn take_tokens(&self, cost: u64) -> bool {
        let take = |tokens: u64| tokens.checked_sub(cost);
        let taken = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }

    fn first_succeeded(&self) {
        self.add(u64::from(self.settings.first_success) * MICRO);
    }

    /// Turns the time since the last refill into tokens. Time that does not make a millionth of a token is kept for the next one.
    fn refill(&self, now: u64) {
        let rate = millionths(self.settings.refill_per_second);
        if rate == 0 {
            return;
        }
        let last = self.refilled.load(Ordering::Relaxed);
        let elapsed = u128::from(now.saturating_sub(last));
        let earned = elapsed * u128::from(rate) / u128::from(SECOND);
        if earned == 0 {
            return;
        }
        let used = (earned * u128::from(SECOND)).div_ceil(u128::from(rate));
        let until = last.saturating_add(u64::try_from(used).unwrap_or(u64::MAX));
        // Whoever moves the time on adds its tokens.
        let claimed =
            self.refilled
                .compare_exchange(last, until, Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() {
            self.add(u64::try_from(earned).unwrap_or(u64::MAX));
        }
    }

    /// Takes one retry from the floor. Returns the interval between two, in nanoseconds.
    fn take_from_floor(&self, now: u64) -> Option<u64> {
        let rate = millionths(self.settings.floor_per_second);
        if rate == 0 {
            return None;
        }
        let interval = SECOND.saturating_mul(MICRO) / rate;
        // One second's worth, and at least one retry.
        let latest = now.saturating_add(interval.max(SECOND));
        let take = |full: u64| {
            let next = full.max(now).saturating_add(interval);
            (next <= latest).then_some(next)
        };
        let taken = self
            .floor_full
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok().then_some(interval)
    }

    fn return_to_floor(&self, interval: u64) {
        let give = |full: u64| Some(full.saturating_sub(interval));
        let _ = self
            .floor_full
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }
}

/// What a retry took. Dropped before the retry is [sent](Self::send), it gives everything back.
pub(crate) struct Reservation {
    bucket: Arc<Bucket>,
    taken: Taken,
    is_sent: bool,
}

enum Taken {
    /// In millionths.
    Tokens(u64),
    /// One retry, with this interval in nanoseconds.
    Floor(u64),
}

impl Reservation {
    /// The retry's attempt begins: unless it succeeds, its tokens are used up.
    pub(crate) fn send(&mut self) {
        self.is_sent = true;
    }

    /// The retry succeeded.
    pub(crate) fn succeeded(mut self) {
        // It gives back what it took here, and no second time when it is dropped.
        self.is_sent = true;
        match self.taken {
            Taken::Tokens(cost) => self.bucket.add(cost),
            Taken::Floor(_) => self.bucket.first_succeeded(),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_sent {
            return;
        }
        match self.taken {
            Taken::Tokens(cost) => self.bucket.add(cost),
            Taken::Floor(interval) => self.bucket.return_to_floor(interval),
        }
    }
}

/// A rate in millionths; zero if it is negative or no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a float saturates when it is cast, and a negative one becomes zero"
)]
fn millionths(rate: f64) -> u64 {
    (rate * MICRO as f64) as u64
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
