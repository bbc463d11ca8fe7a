//! Entries cut into batches that SQS accepts.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

use super::{BATCH_BYTES, BATCH_ENTRIES};

/// Full batches of these entries, in their order: at most [`BATCH_ENTRIES`] and [`BATCH_BYTES`] each. An entry that is larger is a batch by itself.
pub fn batches<E>(entries: impl IntoIterator<Item = E>, size: impl Fn(&E) -> usize) -> Vec<Vec<E>> {
    let mut batch = OpenBatch::default();
    let mut batches = Vec::new();
    for entry in entries {
        let size = size(&entry);
        batches.extend(batch.add(entry, size));
    }
    batches.extend((batch.len() > 0).then(|| batch.take()));
    batches
}

/// Parts of these entries that each have a group at most once. Sent one after the other, they keep the order of each group, even if the queue refuses an entry.
pub fn rounds<E, G: Eq + Hash>(entries: Vec<E>, group: impl Fn(&E) -> G) -> Vec<Vec<E>> {
    let mut counts = HashMap::<G, usize>::new();
    let mut rounds: Vec<Vec<E>> = Vec::new();
    for entry in entries {
        let count = counts.entry(group(&entry)).or_default();
        match rounds.get_mut(*count) {
            Some(round) => round.push(entry),
            None => rounds.push(vec![entry]),
        }
        *count += 1;
    }
    rounds
}

/// A batch that is not full yet.
#[derive(Debug)]
pub(super) struct OpenBatch<E> {
    entries: Vec<E>,
    bytes: usize,
}

impl<E> Default for OpenBatch<E> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
        }
    }
}

impl<E> OpenBatch<E> {
    /// Adds an entry. Returns the batches that are full: one, or two if an entry of the largest size follows others.
    pub(super) fn add(&mut self, entry: E, size: usize) -> impl Iterator<Item = Vec<E>> + use<E> {
        let is_too_large = self.bytes + size > BATCH_BYTES && !self.entries.is_empty();
        let before = is_too_large.then(|| self.take());
        self.bytes += size;
        self.entries.push(entry);
        let is_full = self.entries.len() == BATCH_ENTRIES || self.bytes >= BATCH_BYTES;
        let full = is_full.then(|| self.take());
        before.into_iter().chain(full)
    }

    pub(super) fn take(&mut self) -> Vec<E> {
        self.bytes = 0;
        mem::replace(&mut self.entries, Vec::with_capacity(BATCH_ENTRIES))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_ten_entries_and_a_mebibyte_at_most() {
        let lengths = |sizes: &[usize]| -> Vec<_> {
            let batches = batches(sizes, |size| **size);
            batches.iter().map(Vec::len).collect()
        };
        assert!(lengths(&[]).is_empty());
        assert_eq!(lengths(&[1; 10]), [10]);
        assert_eq!(lengths(&[1; 21]), [10, 10, 1]);
        assert_eq!(lengths(&[BATCH_BYTES; 2]), [1, 1]);
        assert_eq!(lengths(&[600_000, 400_000, 100_000]), [2, 1]);
        assert_eq!(lengths(&[1, 2 * BATCH_BYTES, 1]), [1, 1, 1]);
    }

    #[test]
    fn a_round_has_each_group_once_and_rounds_keep_the_order_of_a_group() {
        let entries = vec!["a1", "a2", "b1", "a3", "b2", "c1"];
        let rounds = rounds(entries, |it| it.chars().next());
        assert_eq!(
            rounds,
            [vec!["a1", "b1", "c1"], vec!["a2", "b2"], vec!["a3"]]
        );
        assert!(super::rounds(Vec::<u8>::new(), |it| *it).is_empty());
    }
}
