//! How long the host waits before it repeats a request of its own. Policies decide about messages, not about these requests.

use std::time::Duration;

use backstop_backoff::jitter;

/// Exponential backoff with equal jitter: the wait after `n` failures is uniform from half of `min(longest, first * 2^(n-1))` to all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: u32,
    longest: u32,
}

impl Backoff {
    /// From the longest wait after the first failure to the longest wait of all, both in milliseconds.
    pub const fn milliseconds(first: u32, longest: u32) -> Self {
        Self { first, longest }
    }

    /// The wait after this many failures. `random` is in [0, 1).
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
