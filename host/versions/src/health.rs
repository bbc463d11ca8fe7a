//! The health of the active version: the messages on which it failed recently.

use std::collections::VecDeque;
use std::time::Instant;

use crate::catalog::RollBack;

/// Counts the messages with a broken decision within a sliding time window. A message counts once, however often it breaks, so that one message that breaks every version does not roll them all back.
#[derive(Debug)]
pub(crate) struct Health {
    limit: RollBack,
    /// The ids of the messages, each with the time of its last broken decision, in the order of these times.
    broken: VecDeque<(Instant, String)>,
}

impl Health {
    pub(crate) fn new(limit: RollBack) -> Self {
        Self {
            limit,
            broken: VecDeque::new(),
        }
    }

    /// Counts a broken decision on this message. Returns the number of such messages within the time window if it reaches the limit.
    pub(crate) fn record_failure(&mut self, message_id: &str, now: Instant) -> Option<u32> {
        let limit = self.limit.broken;
        if limit == 0 {
            return None;
        }
        let within = self.limit.within;
        let broken = &mut self.broken;
        broken.retain(|(at, id)| id != message_id && now.duration_since(*at) <= within);
        broken.push_back((now, message_id.to_owned()));
        // More than the limit need not be kept.
        while u32::try_from(broken.len()).is_ok_and(|count| count > limit) {
            broken.pop_front();
        }
        let count = u32::try_from(broken.len()).unwrap_or(limit);
        (count >= limit).then_some(count)
    }

    /// Starts again at zero, for another version.
    pub(crate) fn clear(&mut self) {
        self.broken.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use backstop_core::clock;

    fn health(broken: u32) -> Health {
        Health::new(RollBack {
            broken,
            within: Duration::from_secs(60),
        })
    }

    #[test]
    fn the_limit_counts_messages_within_the_time_window() {
        let mut health = health(3);
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let counts: Vec<_> = [0, 30, 61, 80, 90, 91]
            .map(|second| health.record_failure(&format!("m-{second}"), at(second)))
            .to_vec();
        assert_eq!(counts, [None, None, None, Some(3), Some(3), Some(3)]);
        health.clear();
        assert_eq!(health.record_failure("m", at(92)), None);
    }

    #[test]
    fn a_message_counts_once_with_the_time_of_its_last_broken_decision() {
        let mut health = health(2);
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((0..=50).all(|second| health.record_failure("one", at(second)).is_none()));
        assert_eq!(health.record_failure("another", at(100)), Some(2));
        assert_eq!(health.record_failure("a third", at(161)), None);
    }

    #[test]
    fn zero_disables_automatic_roll_back() {
        let mut health = health(0);
        let now = clock::instant();
        assert!((0..100).all(|message| health.record_failure(&message.to_string(), now).is_none()));
    }
}
