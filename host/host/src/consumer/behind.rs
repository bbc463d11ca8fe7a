//! What stands behind a failed message of its FIFO group, as far as this host has received it.

use std::collections::HashMap;
use std::sync::Mutex;

use backstop_core::lock::lock;

/// The most groups of which this is known.
const GROUPS: usize = 10_000;

/// How many messages stand behind those that wait, by the id of the one that waits.
#[derive(Debug, Default)]
pub(super) struct Behind(Mutex<HashMap<String, usize>>);

impl Behind {
    /// So many messages were returned because this one of their group stays in the queue.
    pub(super) fn note(&self, id: &str, messages: usize) {
        let mut groups = lock(&self.0);
        if groups.len() < GROUPS || groups.contains_key(id) {
            groups.insert(id.to_owned(), messages);
        }
    }

    /// How many messages stand behind those that still wait. The others are forgotten.
    pub(super) fn count(&self, waits: impl Fn(&str) -> bool) -> usize {
        let mut groups = lock(&self.0);
        groups.retain(|id, _| waits(id));
        groups.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_a_message_counts_while_it_waits() {
        let behind = Behind::default();
        for (id, messages) in [("a", 3), ("b", 4), ("a", 9)] {
            behind.note(id, messages);
        }
        assert_eq!(behind.count(|_| true), 13);
        assert_eq!(behind.count(|id| id == "b"), 4);
        assert_eq!(behind.count(|_| true), 4);
        for number in 0..2 * GROUPS {
            behind.note(&number.to_string(), 1);
        }
        assert_eq!(behind.count(|_| true), GROUPS + 3);
    }
}
