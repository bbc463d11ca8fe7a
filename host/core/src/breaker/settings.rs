//! The numbers of a breaker, with their bounds.

use std::time::Duration;

use crate::backoff::Backoff;

/// The numbers of a [`Breaker`](super::Breaker). Begin with the default ones:
///
/// ```
/// use backstop_core::breaker::BreakerSettings;
///
/// let settings = BreakerSettings::default().most(10);
/// assert_eq!((settings.minimum, settings.share), (20, 0.8));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// The fewest failures without a success between them that open it; 20, at least 1.
    pub minimum: u32,
    /// How long nothing may have succeeded before it opens; 5 s, at most an hour. Shorter outages cost less than a pause.
    pub shortest_outage: Duration,
    /// The pauses before the probes: from 2 to 4 s before the first, doubled by each further one, up to between 30 and 60 s.
    pub pauses: Backoff,
    /// The longest `Retry-After` that is believed, and the longest [hold](super::Breaker::hold_until); 5 minutes, at most a day.
    pub longest_retry_after: Duration,
    /// The number of attempts in flight at which a breaker that grows is closed; 100, at least 1.
    pub most: u32,
    /// How many more attempts may be in flight after a round of successes, which are as many as may be in flight; 1, at least 1.
    pub growth: u32,
    /// The share of failures that cuts the limit while it grows; 0.8, from 0.01 to 1. It is that of at least a quarter of [`minimum`](Self::minimum) outcomes.
    pub share: f64,
    /// The part of the limit that a cut leaves; 0.5, from 0 to 0.9. One attempt may always be in flight.
    pub cut: f64,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            minimum: 20,
            shortest_outage: Duration::from_secs(5),
            pauses: Backoff::milliseconds(4_000, 60_000),
            longest_retry_after: Duration::from_secs(5 * 60),
            most: 100,
            growth: 1,
            share: 0.8,
            cut: 0.5,
        }
    }
}

impl BreakerSettings {
    /// The same numbers with another smallest number of failures that open it.
    #[must_use]
    pub const fn minimum(mut self, minimum: u32) -> Self {
        self.minimum = minimum;
        self
    }

    /// With another time for which nothing may have succeeded before it opens.
    #[must_use]
    pub const fn shortest_outage(mut self, shortest_outage: Duration) -> Self {
        self.shortest_outage = shortest_outage;
        self
    }

    /// With other pauses before the probes.
    #[must_use]
    pub const fn pauses(mut self, pauses: Backoff) -> Self {
        self.pauses = pauses;
        self
    }

    /// With another longest `Retry-After` that is believed.
    #[must_use]
    pub const fn longest_retry_after(mut self, longest_retry_after: Duration) -> Self {
        self.longest_retry_after = longest_retry_after;
        self
    }

    /// With another number of attempts in flight at which a breaker that grows is closed.
    #[must_use]
    pub const fn most(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// With another number of attempts by which the limit grows.
    #[must_use]
    pub const fn growth(mut self, growth: u32) -> Self {
        self.growth = growth;
        self
    }

    /// With another share of failures that cuts the limit.
    #[must_use]
    pub const fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// With another part of the limit that a cut leaves.
    #[must_use]
    pub const fn cut(mut self, cut: f64) -> Self {
        self.cut = cut;
        self
    }

    /// Each number as the nearest one within its bounds. One that is no number counts as the default.
    pub(super) fn within_bounds(self) -> Self {
        let default = Self::default();
        let number = |value: f64, default| if value.is_nan() { default } else { value };
        Self {
            minimum: self.minimum.max(1),
            shortest_outage: self.shortest_outage.min(Duration::from_secs(3_600)),
            pauses: self.pauses,
            longest_retry_after: self.longest_retry_after.min(Duration::from_secs(86_400)),
            most: self.most.max(1),
            growth: self.growth.max(1),
            share: number(self.share, default.share).clamp(0.01, 1.0),
            cut: number(self.cut, default.cut).clamp(0.0, 0.9),
        }
    }
}
