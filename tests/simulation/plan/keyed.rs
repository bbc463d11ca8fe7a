//! What messages have in common: a tenant. Of some queues, the breaker and the limits go by it, and what is behind the worker is down for one of them or for all.
//!
//! All of it is drawn from a stream of its own, so that the rest of a seed's plan stays as it was.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::disturbance::{Disturbance, Kind};
use super::{Plan, Version};

/// The number of tenants.
pub(crate) const TENANTS: u32 = 3;

/// The attribute that names the tenant of a message.
pub(crate) const TENANT: &str = "tenant";

/// The stream of a seed from which this is drawn: one in which the seeds of `seeds.txt` have none of it.
const STREAM: u64 = 22;

/// The longest first pause before a probe, in milliseconds.
const FIRST_PAUSE: u32 = 4_000;

/// The tenant of a message.
pub(crate) const fn tenant_of(number: u32) -> u32 {
    number % TENANTS
}

/// The breaker of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Breaking {
    /// Whether each tenant has one; otherwise the queue has.
    pub(crate) by_tenant: bool,
    /// The fewest failures that open it.
    pub(crate) minimum: u32,
    /// How long nothing has succeeded before.
    pub(crate) after: Duration,
    /// The longest pause between two probes, in milliseconds.
    pub(crate) longest_pause: u32,
}

/// The limits of each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) rate: Option<&'static str>,
    /// The most attempts at once.
    pub(crate) most: Option<usize>,
}

impl Breaking {
    /// What is down together with a message.
    pub(crate) const fn key(&self, number: u32) -> u32 {
        if self.by_tenant { tenant_of(number) } else { 0 }
    }

    /// The longest of the first pauses, in milliseconds.
    pub(crate) fn first_pause(&self) -> u32 {
        FIRST_PAUSE.min(self.longest_pause)
    }

    /// The shortest pause after an outage was seen this many times in a row: half of what doubles each time.
    pub(crate) fn shortest_pause(&self, times: u32) -> Duration {
        let doubled = u64::from(self.first_pause()) << times.saturating_sub(1).min(20);
        let longest = doubled.min(self.longest_pause.into());
        Duration::from_millis(longest / 2)
    }

    fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            by_tenant: random.random_ratio(2, 3),
            minimum: random.random_range(2..6),
            after: Duration::from_secs(random.random_range(0..6)),
            longest_pause: *[1_000, 10_000, 60_000].choose(random).unwrap(),
        }
    }
}

impl Limits {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let rates = [None, Some("10/m"), Some("30/m"), Some("2/s")];
        let rate = *rates.choose(random).unwrap();
        let most = random.random_range(1..4);
        Self {
            rate,
            most: (rate.is_none() || random.random()).then_some(most),
        }
    }
}

impl Plan {
    /// Adds breakers, limits and what goes with them.
    pub(super) fn add_keys(&mut self) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(STREAM);
        self.breaker = random
            .random_ratio(1, 4)
            .then(|| Breaking::draw(&mut random));
        self.limits = random.random_ratio(1, 5).then(|| Limits::draw(&mut random));
        let mut kinds = Vec::new();
        if self.breaker.is_some() {
            for _ in 0..random.random_range(1..4) {
                let tenant = random.random_range(0..TENANTS);
                let tenant = Some(tenant).filter(|_| random.random());
                kinds.push(Kind::Outage { tenant });
            }
            for version in &mut self.versions {
                version.down_for = Version::draw_down_for(&mut random);
            }
        }
        if !self.versions.is_empty() {
            for _ in 0..random.random_range(0..4) {
                let kind = [Kind::Check, Kind::RollBack].choose(&mut random);
                kinds.push(*kind.unwrap());
            }
        }
        let times: Vec<_> = self.messages.iter().map(|message| message.at).collect();
        let drawn = kinds
            .into_iter()
            .map(|kind| Disturbance::of(kind, &times, &mut random));
        let ends = self.ends;
        let drawn = drawn.filter(|it| ends.is_none_or(|ends| it.to() < ends));
        self.disturbances.extend(drawn);
    }

    /// Whether attempts go by what messages have in common.
    pub(crate) fn has_keys(&self) -> bool {
        self.breaker.is_some_and(|it| it.by_tenant) || self.limits.is_some()
    }
}
