//! The bucket of tokens behind a retry budget, and its numbers. The rules are those of the budget of `backstop-retry`, which any number of retriers share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::decision::ErrorClass;

pub use settings::BudgetSettings;

mod settings;

/// The unit in which tokens are counted, so that a slow refill is exact too.
const MICRO: u64 = 1_000_000;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A bucket of tokens. Threads share it without a lock.
#[derive(Debug)]
pub struct Bucket {
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
}

/// What a retry took: it is to be given back, unless the retry fails.
#[derive(Debug, Clone, Copy)]
pub struct Taken(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    /// In millionths.
    Tokens(u64),
    /// One retry, with this interval in nanoseconds.
    Floor(u64),
}

impl Bucket {
    /// A full bucket.
    pub fn new(settings: BudgetSettings) -> Self {
        let capacity = u64::from(settings.capacity) * MICRO;
        Self {
            settings,
            capacity,
            tokens: AtomicU64::new(capacity),
            epoch: OnceLock::new(),
            refilled: AtomicU64::new(0),
            floor_full: AtomicU64::new(0),
        }
    }

    /// Its numbers.
    pub fn settings(&self) -> &BudgetSettings {
        &self.settings
    }

    /// The tokens that are left. Time that has passed since the last retry is not included.
    pub fn left(&self) -> f64 {
        let tokens = self.tokens.load(Ordering::Relaxed);
        #[expect(
            clippy::cast_precision_loss,
            reason = "2^32 tokens in millionths have 52 bits"
        )]
        let tokens = tokens as f64 / MICRO as f64;
        tokens
    }

    /// Takes what a retry after an error of this class costs. `None` if there are too few tokens and the floor is used up.
    pub fn take(&self, class: &ErrorClass, now: Instant) -> Option<Taken> {
        let epoch = *self.epoch.get_or_init(|| now);
        let now = nanoseconds(now.saturating_duration_since(epoch));
        self.refill(now);
        let cost = u64::from(self.settings.cost(class)) * MICRO;
        if self.take_tokens(cost) {
            return Some(Taken(Source::Tokens(cost)));
        }
        let interval = self.take_from_floor(now)?;
        Some(Taken(Source::Floor(interval)))
    }

    /// The retry was not sent.
    pub fn give_back(&self, taken: Taken) {
        match taken.0 {
            Source::Tokens(cost) => self.add(cost),
            Source::Floor(interval) => self.return_to_floor(interval),
        }
    }

    /// The retry succeeded.
    pub fn succeeded(&self, taken: Taken) {
        match taken.0 {
            Source::Tokens(cost) => self.add(cost),
            Source::Floor(_) => self.first_succeeded(),
        }
    }

    /// A first attempt succeeded. Costs one load if the bucket is full.
    pub fn first_succeeded(&self) {
        self.add(u64::from(self.settings.first_success) * MICRO);
    }

    fn add(&self, amount: u64) {
        let add = |tokens: u64| {
            let more = tokens.saturating_add(amount).min(self.capacity);
            (more != tokens).then_some(more)
        };
        let _ = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn take_tokens(&self, cost: u64) -> bool {
        let take = |tokens: u64| tokens.checked_sub(cost);
        let taken = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
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
