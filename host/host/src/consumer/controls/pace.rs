//! A rate: a bucket of tokens, one for each message, that time fills.

use std::time::Duration;

use backstop_core::rate::Rate;
use tokio::time::Instant;

use crate::queue::BATCH_ENTRIES;

/// How much is saved up, so that one poll can bring several messages.
const SAVED: Duration = Duration::from_secs(1);

/// Limits how many messages are received in a time.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    /// The time up to which messages are paid for. It is never further back than [`SAVED`] or the time of one message.
    paid: Instant,
}

impl Pace {
    /// A full bucket.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let mut pace = Self { rate, paid: now };
        pace.gave_back(usize::MAX);
        pace
    }

    /// An empty one.
    pub(super) fn empty(rate: Rate, now: Instant) -> Self {
        Self { rate, paid: now }
    }

    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many messages may be received now or, if it is worth waiting, how long to wait: a poll for a few messages costs as much as one for ten.
    pub(super) fn ready(&mut self, now: Instant) -> Result<usize, Duration> {
        self.save(now);
        let (tokens, worthwhile) = (self.tokens(now), self.most().min(BATCH_ENTRIES));
        if tokens >= worthwhile {
            return Ok(tokens);
        }
        let missing = u32::try_from(worthwhile).unwrap_or(u32::MAX);
        let enough = self.paid + self.interval().saturating_mul(missing);
        Err(enough.saturating_duration_since(now))
    }

    /// Takes the next token. Returns when it is there.
    pub(super) fn reserve(&mut self, now: Instant) -> Instant {
        self.save(now);
        self.took(1);
        self.paid.max(now)
    }

    /// Whether as much is saved up as can be.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.tokens(now) >= self.most()
    }

    /// Time that is further back than what is saved up is lost.
    fn save(&mut self, now: Instant) {
        let earliest = now.checked_sub(self.saved()).unwrap_or(now);
        self.paid = self.paid.max(earliest);
    }

    pub(super) fn took(&mut self, messages: usize) {
        self.paid += self.time(messages);
    }

    pub(super) fn gave_back(&mut self, messages: usize) {
        let time = self.time(messages).min(self.saved());
        self.paid = self.paid.checked_sub(time).unwrap_or(self.paid);
    }

    /// How many messages are paid for: those that are saved up, at most.
    pub(super) fn tokens(&self, now: Instant) -> usize {
        let unpaid = now.saturating_duration_since(self.paid);
        let tokens = unpaid.as_nanos() / self.interval().as_nanos().max(1);
        usize::try_from(tokens)
            .unwrap_or(usize::MAX)
            .min(self.most())
    }

    /// The most tokens: those of [`SAVED`], and at least one.
    fn most(&self) -> usize {
        let most = SAVED.as_nanos() / self.interval().as_nanos().max(1);
        usize::try_from(most).unwrap_or(usize::MAX).max(1)
    }

    fn saved(&self) -> Duration {
        self.time(self.most())
    }

    fn time(&self, messages: usize) -> Duration {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.interval().saturating_mul(messages)
    }

    fn interval(&self) -> Duration {
        self.rate.interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages are received in ten seconds, by polls that bring at most `full` of ten.
    fn in_ten_seconds(rate: &str, full: usize) -> (usize, usize) {
        let start = Instant::now();
        let mut pace = Pace::new(rate.parse().unwrap(), start);
        let (mut now, mut received, mut polls) = (start, 0, 0);
        while now < start + Duration::from_secs(10) {
            match pace.ready(now) {
                Ok(messages) => {
                    let asked = messages.min(BATCH_ENTRIES);
                    pace.took(asked);
                    pace.gave_back(asked - asked.min(full));
                    received += asked.min(full);
                    polls += 1;
                    // An empty poll takes a while.
                    now += Duration::from_millis(if full < asked { 100 } else { 1 });
                }
                Err(wait) => now += wait.max(Duration::from_millis(1)),
            }
        }
        (received, polls)
    }

    #[test]
    fn a_rate_holds_with_full_and_with_scarce_polls() {
        for (rate, full, messages, polls) in [
            ("50/s", 10, 500..=551, 50..=56),
            // A second is saved up: five in one poll.
            ("5/s", 10, 50..=55, 10..=11),
            ("30/m", 10, 5..=6, 5..=6),
            ("1000/s", 10, 9_900..=11_010, 990..=1_101),
            // What did not come does not count.
            ("50/s", 1, 90..=101, 90..=101),
        ] {
            let (received, made) = in_ten_seconds(rate, full);
            assert!(messages.contains(&received), "{rate}: {received} messages");
            assert!(polls.contains(&made), "{rate}: {made} polls");
        }
    }

    #[test]
    fn no_more_is_saved_up_than_for_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new("20/s".parse().unwrap(), start);
        assert_eq!(pace.ready(start + Duration::from_secs(3_600)), Ok(20));
        pace.gave_back(1_000);
        assert_eq!(pace.ready(start + Duration::from_secs(3_600)), Ok(20));
    }
}
