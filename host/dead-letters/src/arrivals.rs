//! Which letters were in a queue when its reading began. A queue that grows faster than it is read would never be read to its end.

use backstop_core::failure::Timestamp;
use backstop_queue::{Description, Message};

/// How far the clocks of this machine and of SQS may be apart, in milliseconds: AWS refuses requests that are signed more than 15 minutes before or after.
const CLOCK_DIFFERENCE: i64 = 15 * 60 * 1_000;

/// How exact the times are, in milliseconds: an answer takes a moment, and some queues count seconds.
const SLACK: i64 = 1_000;

/// How long letters are taken for those of the beginning whose time of arrival nobody knows, in milliseconds, if the queue had reported fewer: its number is approximate.
const GRACE: u64 = 5_000;

/// The letters that were there when a reading began, by the times of SQS.
#[derive(Debug)]
pub(crate) struct Arrivals {
    started: Timestamp,
    fifo: bool,
    /// How many letters there were, those that others held included.
    expected: Option<usize>,
    /// How far SQS's clock is ahead at least: every time that it gives is past there.
    ahead: i64,
    /// How far it is ahead, from letters that were received for the first time.
    measured: Option<i64>,
}

impl Arrivals {
    /// A reading that begins now, by this machine's clock.
    pub(crate) fn new(started: Timestamp, description: &Description) -> Self {
        let held = description.in_flight.unwrap_or(0);
        Self {
            started,
            fifo: description.fifo,
            expected: description.visible.map(|visible| visible + held),
            ahead: i64::MIN,
            measured: None,
        }
    }

    /// Compares SQS's clock with this machine's, by a letter that was received just now.
    pub(crate) fn learn(&mut self, message: &Message, now: Timestamp) {
        let ahead = |time: Timestamp| {
            let milliseconds = |it: Timestamp| i64::try_from(it.0).unwrap_or(i64::MAX);
            milliseconds(time).saturating_sub(milliseconds(now))
        };
        let is_possible = |difference: &i64| difference.abs() <= CLOCK_DIFFERENCE;
        let latest = ahead(message.sent.max(message.first_received));
        self.ahead = self
            .ahead
            .max(Some(latest).filter(is_possible).unwrap_or(0));
        let is_first = message.receive_count.get() == 1 && message.dead_letter_source.is_none();
        if is_first {
            let measured = Some(ahead(message.first_received)).filter(is_possible);
            self.measured = self.measured.max(measured);
        }
    }

    /// Whether a letter that was received just now was there at the beginning, as the one after `seen` others that were.
    pub(crate) fn was_there(&self, message: &Message, seen: usize, now: Timestamp) -> bool {
        let ahead = self.measured.unwrap_or(0).max(self.ahead) + SLACK;
        let started = i64::try_from(self.started.0).unwrap_or(i64::MAX);
        let until = u64::try_from(started.saturating_add(ahead)).unwrap_or(0);
        if message.sent.0 > until {
            return false;
        }
        // SQS keeps the time of the first send when it moves a message between standard queues.
        let is_moved = message.dead_letter_source.is_some() && !self.fifo;
        !is_moved
            || self.expected.is_none_or(|expected| seen < expected)
            || now.0 <= self.started.0.saturating_add(GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letter::tests::letter;

    const START: Timestamp = Timestamp(1_000_000_000);

    async fn message(sent: i64, first_received: i64, receives: u32) -> Message {
        let at = |offset: i64| Timestamp(START.0.checked_add_signed(offset).unwrap());
        let mut message = letter("an order", &[]).await.message;
        message.sent = at(sent);
        message.first_received = at(first_received);
        message.receive_count = receives.try_into().unwrap();
        message
    }

    fn arrivals(visible: usize) -> Arrivals {
        let description = Description {
            arn: "local:dead".to_owned(),
            fifo: false,
            visibility_timeout: Default::default(),
            retention: Default::default(),
            max_message_bytes: 1 << 20,
            visible: Some(visible),
            in_flight: Some(1),
            redrive: None,
            delay: Default::default(),
            delayed: None,
            access_policy: None,
        };
        Arrivals::new(START, &description)
    }

    #[tokio::test]
    async fn a_letter_that_arrives_after_the_start_is_later_whatever_the_clocks_say() {
        // SQS's clock is ahead or behind by so much, and how often the letters were received before.
        for (ahead, receives) in [(0, 1), (120_000, 1), (-120_000, 1), (120_000, 2), (0, 2)] {
            let mut arrivals = arrivals(10);
            let now = Timestamp(START.0 + 20_000);
            let last = message(ahead - 10, ahead + 20_000, receives).await;
            let later = message(ahead + 15_000, ahead + 20_000, receives).await;
            arrivals.learn(&last, now);
            assert!(arrivals.was_there(&last, 0, now), "{ahead} {receives}");
            if receives == 1 {
                assert!(!arrivals.was_there(&later, 0, now), "{ahead} {receives}");
            }
        }
        // A time that no clock has does not count.
        let mut arrivals = arrivals(10);
        let odd = message(-10_000_000, 10_000_000, 1).await;
        arrivals.learn(&odd, START);
        assert!(arrivals.was_there(&message(-1, 0, 2).await, 0, START));
    }

    #[tokio::test]
    async fn of_letters_without_a_time_of_arrival_as_many_count_as_there_were() {
        let arrivals = arrivals(2);
        let mut moved = message(-60_000, -30_000, 2).await;
        moved.dead_letter_source = Some("arn:aws:sqs:eu-west-1:1:orders".to_owned());
        let after = |time: u64| Timestamp(START.0 + time);
        // Two could be received, and another one was held.
        assert!(arrivals.was_there(&moved, 2, after(10_000)));
        assert!(!arrivals.was_there(&moved, 3, after(10_000)));
        assert!(arrivals.was_there(&moved, 3, after(4_000)));
    }
}
