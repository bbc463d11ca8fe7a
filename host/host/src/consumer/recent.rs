//! A map that is bounded: the value that was changed least recently makes place for another.
//!
//! Values are in one slab, and the index has numbers only. A list of allocations, with its keys in a map, would take twice the memory.

use hashbrown::HashTable;
use lru_slab::LruSlab;

/// A hash that others can't foresee.
pub(super) type Key = u64;

#[derive(Debug)]
pub(super) struct Recent<V> {
    most: usize,
    values: LruSlab<(Key, V)>,
    /// The numbers of the values, found by their keys.
    numbers: HashTable<u32>,
}

impl<V> Recent<V> {
    /// A map of this many values at most.
    pub(super) fn of(most: usize) -> Self {
        Self {
            most,
            values: LruSlab::new(),
            numbers: HashTable::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn get(&self, key: Key) -> Option<&V> {
        self.number(key).map(|number| &self.values.peek(number).1)
    }

    /// The value, which is now the one that was changed last.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        let number = self.number(key)?;
        Some(&mut self.values.get_mut(number).1)
    }

    /// The value, which is now the one that was changed last. If there is none yet, it is this one.
    pub(super) fn get_or_insert(&mut self, key: Key, value: V) -> &mut V {
        let number = self.number(key).unwrap_or_else(|| self.insert(key, value));
        &mut self.values.get_mut(number).1
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<V> {
        let values = &self.values;
        let is_it = |number: &u32| values.peek(*number).0 == key;
        let (number, _) = self.numbers.find_entry(key, is_it).ok()?.remove();
        let (_, value) = self.values.remove(number);
        if self.values.is_empty() {
            // A wave of failures is over: its memory is returned.
            *self = Self::of(self.most);
        }
        Some(value)
    }

    fn insert(&mut self, key: Key, value: V) -> u32 {
        if self.numbers.len() >= self.most
            && let Some(last) = self.values.lru()
        {
            let (key, _) = self.values.peek(last);
            self.remove(*key);
        }
        let number = self.values.insert((key, value));
        let values = &self.values;
        let key_of = |number: &u32| values.peek(*number).0;
        self.numbers.insert_unique(key, number, key_of);
        number
    }

    fn number(&self, key: Key) -> Option<u32> {
        let is_it = |number: &u32| self.values.peek(*number).0 == key;
        self.numbers.find(key, is_it).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_value_that_was_changed_least_recently_makes_place() {
        let mut recent = Recent::of(2);
        recent.get_or_insert(1, 'a');
        recent.get_or_insert(2, 'b');
        *recent.get_mut(1).unwrap() = 'c';
        // Reading is no change.
        recent.get(2);
        recent.get_or_insert(3, 'd');
        assert_eq!(
            [1, 2, 3].map(|key| recent.get(key).copied()),
            [Some('c'), None, Some('d')]
        );
    }

    proptest! {
        #[test]
        fn it_has_the_values_of_a_map(
            steps in proptest::collection::vec((0_u8..3, 0_u64..20, 0..100), 0..200)
        ) {
            let mut recent = Recent::of(20);
            let mut map = std::collections::BTreeMap::new();
            for (step, key, value) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(
                            recent.get_or_insert(key, value),
                            map.entry(key).or_insert(value)
                        );
                    }
                    1 => prop_assert_eq!(recent.get_mut(key), map.get_mut(&key)),
                    _ => prop_assert_eq!(recent.remove(key), map.remove(&key)),
                }
                prop_assert_eq!(recent.numbers.len(), map.len());
                for key in 0..20 {
                    prop_assert_eq!(recent.get(key), map.get(&key));
                }
            }
        }
    }
}
