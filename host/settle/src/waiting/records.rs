//! Bytes of any length, in few pages and without gaps: an allocation for each record would leave holes between those of other work.
//!
//! Records of about one length share pages. When one leaves, the last one of its pages takes its place.

use std::collections::BTreeMap;

/// The space of a record is a multiple of this, in bytes.
const STEP: usize = 8;

/// The bytes of a page, about.
const PAGE: usize = 64 << 10;

/// The bytes of the number of a record's owner, which stands before it.
const OWNER: usize = size_of::<u32>();

/// Where a record is. Another one's removal can change its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    length: u32,
    number: u32,
}

/// A record has taken the place of another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// Whose record it is.
    pub(super) owner: u32,
    number: u32,
}

/// The records.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The pages by the space of their records. All pages are full, except for the last one of each space.
    pages: BTreeMap<usize, Vec<Vec<u8>>>,
    bytes: usize,
}

impl Place {
    /// The place, once its record has moved.
    pub(super) const fn after(self, moved: &Moved) -> Self {
        Self {
            number: moved.number,
            ..self
        }
    }

    const fn space(self) -> usize {
        (OWNER + self.length as usize).next_multiple_of(STEP)
    }

    /// The number of its page, and where it begins there.
    fn position(self) -> (usize, usize) {
        let (number, in_page) = (self.number as usize, in_page(self.space()));
        (number / in_page, number % in_page * self.space())
    }
}

/// How many records of a space share a page.
fn in_page(space: usize) -> usize {
    (PAGE / space).max(1)
}

impl Records {
    /// Adds a record of this owner.
    pub(super) fn add(&mut self, owner: u32, record: &[u8]) -> Place {
        let mut place = Place {
            length: u32::try_from(record.len()).unwrap_or(u32::MAX),
            number: 0,
        };
        let space = place.space();
        let capacity = in_page(space) * space;
        let pages = self.pages.entry(space).or_default();
        let has_space = pages.last().is_some_and(|page| page.len() < capacity);
        if !has_space {
            pages.push(Vec::with_capacity(capacity));
        }
        let full = pages.len() - 1;
        if let Some(page) = pages.last_mut() {
            let number = full * in_page(space) + page.len() / space;
            place.number = u32::try_from(number).unwrap_or(u32::MAX);
            let end = page.len() + space;
            page.extend_from_slice(&owner.to_le_bytes());
            page.extend_from_slice(record);
            page.resize(end, 0);
        }
        self.bytes += space;
        place
    }

    /// A record that was added.
    pub(super) fn get(&self, place: Place) -> &[u8] {
        let (page, start) = place.position();
        let pages = self.pages.get(&place.space());
        let page = pages.and_then(|pages| pages.get(page));
        let from = start + OWNER;
        page.and_then(|page| page.get(from..from + place.length as usize))
            .unwrap_or_default()
    }

    /// Removes a record. Returns which other one has taken its place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Moved> {
        let space = place.space();
        let pages = self.pages.get_mut(&space)?;
        let last = pages.last_mut()?;
        let record = last.split_off(last.len() - space);
        if last.is_empty() {
            pages.pop();
        }
        self.bytes -= space;
        let (page, start) = place.position();
        let page = pages.get_mut(page);
        let gap = page.and_then(|page| page.get_mut(start..start + space));
        let moved = gap.and_then(|gap| {
            gap.copy_from_slice(&record);
            Some(Moved {
                owner: u32::from_le_bytes(*record.first_chunk()?),
                number: place.number,
            })
        });
        if pages.is_empty() {
            self.pages.remove(&space);
        }
        moved
    }

    /// The memory that the records take. Each length may take a page more.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_are_returned() {
        let mut records = Records::default();
        let large = vec![7; 2 * PAGE];
        let places: Vec<_> = (0..3).map(|owner| records.add(owner, &large)).collect();
        assert_eq!(records.get(places[2]), large);
        assert_eq!(
            records.remove(places[0]),
            Some(Moved {
                owner: 2,
                number: 0
            })
        );
        let pages = || records.pages.values().map(Vec::len).sum::<usize>();
        assert_eq!(pages(), 2);
        assert_eq!(records.remove(places[1]), None);
        assert_eq!(records.remove(places[0]), None);
        assert_eq!((records.bytes(), records.pages.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn records_stay_as_they_are_while_others_come_and_leave(
            steps in proptest::collection::vec((any::<bool>(), 0..6_u32, 0..40_000_usize), 0..100)
        ) {
            let mut records = Records::default();
            let mut places = BTreeMap::new();
            for (adds, owner, length) in steps {
                // Some lengths often, so that records move.
                let length = if length % 3 == 0 { length } else { 9_000 };
                let record = |owner: u32, length| vec![u8::try_from(owner).unwrap(); length];
                match places.remove(&owner) {
                    Some((place, _)) => {
                        if let Some(moved) = records.remove(place) {
                            let moving: &mut (Place, usize) = places.get_mut(&moved.owner).unwrap();
                            moving.0 = moving.0.after(&moved);
                        }
                    }
                    None if adds => {
                        places.insert(owner, (records.add(owner, &record(owner, length)), length));
                    }
                    None => {}
                }
                for (owner, (place, length)) in &places {
                    prop_assert_eq!(records.get(*place), record(*owner, *length));
                }
                let bytes: usize = records.pages.values().flatten().map(Vec::len).sum();
                prop_assert_eq!(records.bytes(), bytes);
            }
        }
    }
}
