//! How the version at work does: its broken decisions of late.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::RollBack;

/// Counts broken decisions within a time that moves on.
#[derive(Debug)]
pub(super) struct Health {
    limit: RollBack,
    broken: Mutex<VecDeque<Instant>>,
}

impl Health {
    pub(super) fn new(limit: RollBack) -> Self {
        Self {
            limit,
            broken: Mutex::default(),
        }
    }

    /// A decision broke. How many did within the time, where that is too many.
    pub(super) fn broke(&self, now: Instant) -> Option<u32> {
        let limit = self.limit.broken;
        if limit == 0 {
            return None;
        }
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.push_back(now);
        while broken
            .front()
            .is_some_and(|first| now.duration_since(*first) > self.limit.within)
        {
            broken.pop_front();
        }
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
    use crate::clock;

    fn health(broken: u32) -> Health {
        Health::new(RollBack {
            broken,
            within: Duration::from_secs(60),
        })
    }

    #[test]
    fn so_many_within_the_time_are_too_many() {
        let health = health(3);
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let told: Vec<_> = [0, 30, 61, 80, 90, 91]
            .map(|second| health.broke(at(second)))
            .to_vec();
        assert_eq!(told, [None, None, None, Some(3), Some(3), Some(3)]);
        health.begin();
        assert_eq!(health.broke(at(92)), None);
    }

    #[test]
    fn none_is_too_many_where_the_operator_wants_no_roll_back() {
        let health = health(0);
        let now = clock::instant();
        assert!((0..100).all(|_| health.broke(now).is_none()));
    }
}
