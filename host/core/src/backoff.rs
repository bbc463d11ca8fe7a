//! The delay before the host repeats one of its own requests. Policies decide about messages, not about these requests.

use std::time::Duration;

use backstop_backoff::jitter;

/// Exponential backoff with equal jitter: after `n` failures, the delay is uniform between half of `min(longest, first * 2^(n-1))` and all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: u32,
    longest: u32,
}

impl Backoff {
    /// The largest delay after the first failure, and the largest delay of all, both in milliseconds.
    pub const fn milliseconds(first: u32, longest: u32) -> Self {
        Self { first, longest }
    }

    /// The delay after this many failures. `random` is in [0, 1).
    pub fn wait(self, failures: u32, random: f64) -> Duration {
        let ceiling = jitter::exponential(self.first, self.longest, failures);
        Duration::from_millis(jitter::equal(ceiling, random).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let backoff = Backoff::milliseconds(100, 1_000);
        let waits = |random| [1, 2, 3, 4, 5, 100].map(|n| backoff.wait(n, random).as_millis());
        assert_eq!(waits(0.0), [50, 100, 200, 400, 500, 500]);
        assert_eq!(waits(0.999_999), [100, 200, 400, 800, 1_000, 1_000]);
    }
}
