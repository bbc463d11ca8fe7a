//! When a source is checked again.

use std::time::Duration;

/// The first wait after a source could not be read.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The time of the next update check: one refresh time after the last, drawn from 90 to 110 % of it so that a fleet does not check all at once. While the source is unreachable, an exponential backoff with equal jitter, up to the refresh time.
#[derive(Debug, Clone)]
pub struct Schedule {
    refresh: Duration,
    failures: u32,
}

impl Schedule {
    /// Checks at each refresh time.
    pub fn new(refresh: Duration) -> Self {
        Self {
            refresh,
            failures: 0,
        }
    }

    /// Checks at each `refresh` from now on.
    pub fn every(&mut self, refresh: Duration) {
        self.refresh = refresh;
    }

    /// The time until the next check, after one whose source was reachable or not. `random` is from 0 to below 1.
    pub fn next(&mut self, unreachable: bool, random: f64) -> Duration {
        if !unreachable {
            self.failures = 0;
            return self.refresh.mul_f64(0.9 + 0.2 * random);
        }
        let most = FIRST_RETRY_DELAY.saturating_mul(1 << self.failures.min(20));
        self.failures += 1;
        most.min(self.refresh).mul_f64(0.5 + 0.5 * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_checked_each_refresh_time_and_sooner_while_it_is_unreachable() {
        let mut schedule = Schedule::new(Duration::from_secs(60));
        let mut seconds = |unreachable, random| schedule.next(unreachable, random).as_secs_f64();
        assert_eq!(seconds(false, 0.0), 54.0);
        assert_eq!(seconds(false, 0.5), 60.0);
        let delays: Vec<f64> = (0..8).map(|_| seconds(true, 1.0)).collect();
        assert_eq!(delays, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(seconds(true, 0.0), 30.0);
        assert_eq!(seconds(false, 0.5), 60.0);
        assert_eq!(seconds(true, 0.0), 0.5);
    }

    #[test]
    fn a_source_that_stays_unreachable_overflows_nothing() {
        let mut schedule = Schedule::new(Duration::from_secs(60));
        assert!((0..100_000).all(|_| schedule.next(true, 0.999) <= Duration::from_secs(60)));
    }
}
