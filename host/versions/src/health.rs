//! How the version at work does: the messages on which it broke of late.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::RollBack;

/// Counts the messages with a broken decision within a time that moves on. A message counts once, however often it is decided: one that breaks every version must not have any of them taken back.
#[derive(Debug)]
pub(super) struct Health {
    limit: RollBack,
    /// The ids of the messages, each with the time of its last broken decision, in the order of these.
    broken: Mutex<VecDeque<(Instant, String)>>,
}

impl Health {
    pub(super) fn new(limit: RollBack) -> Self {
        Self {
            limit,
            broken: Mutex::default(),
        }
    }

    /// A decision on this message broke. How many messages have had that within the time, where that is too many.
    pub(super) fn record_failure(&self, message_id: &str, now: Instant) -> Option<u32> {
        let limit = self.limit.broken;
        if limit == 0 {
            return None;
        }
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.retain(|(at, id)| id != message_id && now.duration_since(*at) <= self.limit.within);
        broken.push_back((now, message_id.to_owned()));
        // Only as many are kept as are counted.
        while u32::try_from(broken.len()).is_ok_and(|count| count > limit) {
            broken.pop_front();
        }
        let count = u32::try_from(broken.len()).unwrap_or(limit);
        (count >= limit).then_some(count)
    }

    /// Another version is at work.
    pub(super) fn begin(&self) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.clear();
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
    fn so_many_messages_within_the_time_are_too_many() {
        let health = health(3);
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let told: Vec<_> = [0, 30, 61, 80, 90, 91]
            .map(|second| health.record_failure(&format!("m-{second}"), at(second)))
            .to_vec();
        assert_eq!(told, [None, None, None, Some(3), Some(3), Some(3)]);
        health.begin();
        assert_eq!(health.record_failure("m", at(92)), None);
    }

    #[test]
    fn a_message_counts_once_from_its_last_broken_decision_on() {
        let health = health(2);
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((0..=50).all(|second| health.record_failure("one", at(second)).is_none()));
        assert_eq!(health.record_failure("another", at(100)), Some(2));
        assert_eq!(health.record_failure("a third", at(161)), None);
    }

    #[test]
    fn none_is_too_many_where_the_operator_wants_no_roll_back() {
        let health = health(0);
        let now = clock::instant();
        assert!((0..100).all(|message| health.record_failure(&message.to_string(), now).is_none()));
    }
}
