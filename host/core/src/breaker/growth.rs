//! The limit of a breaker that grows: additive growth and multiplicative cut, as TCP has them.

use std::time::{Duration, Instant};

use super::{BreakerSettings, Refused};

/// The outcomes are judged after this many times the duration of a success. Failures are often faster than successes: before, those that will succeed are still under way.
const ROUNDS: u32 = 2;

/// A longer success counts as this, so that the limit is cut within seconds.
const LONGEST_ROUND: Duration = Duration::from_secs(3);

/// A limit that has held nobody back for this long is none.
pub(super) const SETTLED: Duration = Duration::from_secs(30);

/// How many attempts may be in flight while a breaker grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    limit: f64,
    /// When the attempts in flight have reached the limit last.
    reached: Instant,
    /// The duration of the slowest success.
    round: Duration,
    /// Since when these outcomes are counted.
    judged: Instant,
    succeeded: u32,
    failed: u32,
}

impl Growth {
    /// One attempt, the probe, which has succeeded now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            limit: 1.0,
            reached: now,
            round: Duration::ZERO,
            judged: now,
            succeeded: 0,
            failed: 0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates when it is cast"
    )]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// One more attempt, in addition to those in flight.
    pub(super) fn enter(&mut self, in_flight: u32, now: Instant) -> Result<(), Refused> {
        let limit = self.limit();
        if in_flight.saturating_add(1) >= limit {
            self.reached = now;
        }
        if in_flight >= limit {
            return Err(Refused::Full { limit });
        }
        Ok(())
    }

    /// An attempt that took this long has succeeded. Returns whether there need be no limit any more.
    pub(super) fn succeeded(
        &mut self,
        took: Duration,
        at: Instant,
        settings: &BreakerSettings,
    ) -> bool {
        self.round = self.round.max(took).min(LONGEST_ROUND);
        self.succeeded = self.succeeded.saturating_add(1);
        self.limit += f64::from(settings.growth) / self.limit;
        self.judge(at, settings);
        let is_settled = at.saturating_duration_since(self.reached) >= SETTLED;
        self.limit >= f64::from(settings.most) || is_settled
    }

    /// An attempt has failed.
    pub(super) fn failed(&mut self, at: Instant, settings: &BreakerSettings) {
        self.failed = self.failed.saturating_add(1);
        self.judge(at, settings);
    }

    /// Cuts the limit if most of the outcomes are failures, once in some rounds.
    fn judge(&mut self, at: Instant, settings: &BreakerSettings) {
        let total = self.succeeded.saturating_add(self.failed);
        let is_early = at.saturating_duration_since(self.judged) < self.round * ROUNDS;
        if is_early || total < settings.minimum.div_ceil(4) {
            return;
        }
        if f64::from(self.failed) >= settings.share * f64::from(total) {
            self.limit = (self.limit * settings.cut).max(1.0);
        }
        (self.judged, self.succeeded, self.failed) = (at, 0, 0);
    }
}
