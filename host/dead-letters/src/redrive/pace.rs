//! The rate of a run.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Lets letters through at a steady rate.
#[derive(Debug)]
pub(super) struct Pace {
    /// The time of one letter; zero without a limit.
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self {
            interval: interval.unwrap_or_default(),
            next: Mutex::default(),
        }
    }

    /// How many workers the rate needs, `most` without a limit.
    pub(super) fn workers(&self, most: usize) -> usize {
        if self.interval.is_zero() {
            return most;
        }
        // One worker makes at least 40 letters a second.
        let needed = Duration::from_millis(25).as_nanos() / self.interval.as_nanos().max(1);
        usize::try_from(needed).unwrap_or(most).clamp(1, most)
    }

    /// The most letters to take at once, so that they go at a steady rate: those of a quarter of a second, 10 at most.
    pub(super) fn portion(&self, most: usize) -> usize {
        if self.interval.is_zero() {
            return most;
        }
        let quarter = Duration::from_millis(250).as_nanos() / self.interval.as_nanos().max(1);
        usize::try_from(quarter).unwrap_or(most).clamp(1, most)
    }

    /// Waits until this many letters may go.
    pub(super) async fn wait(&self, letters: usize) {
        if self.interval.is_zero() || letters == 0 {
            return;
        }
        let start = {
            let mut next = self.next.lock().await;
            let now = Instant::now();
            let start = next.map_or(now, |next| next.max(now));
            let letters = u32::try_from(letters).unwrap_or(u32::MAX);
            *next = Some(start + self.interval.saturating_mul(letters));
            start
        };
        sleep_until(start).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn letters_go_at_the_rate() {
        let pace = Pace::new(Some(Duration::from_millis(10)));
        let start = Instant::now();
        for _ in 0..20 {
            pace.wait(5).await;
        }
        // The first ones go at once.
        assert_eq!(start.elapsed(), Duration::from_millis(950));
        assert_eq!(pace.portion(10), 10);
        assert_eq!(pace.workers(16), 2);
        assert_eq!(Pace::new(Some(Duration::from_secs(5))).portion(10), 1);
        Pace::new(None).wait(1_000_000).await;
        assert_eq!(start.elapsed(), Duration::from_millis(950));
    }
}
