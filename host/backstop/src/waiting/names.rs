//! Texts that many remembered messages share: codes, classes and digests, each kept once and as long as it is used.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

/// The bytes that a text takes besides its own.
const COST: usize = 100;

/// The number of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name(u32);

#[derive(Debug)]
struct Kept {
    text: Arc<str>,
    uses: u32,
}

/// The texts that are in use.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_text: HashMap<Arc<str>, u32>,
    kept: Slab<Kept>,
    bytes: usize,
}

impl Names {
    /// Uses a text once more.
    pub(super) fn add(&mut self, text: &str) -> Name {
        if let Some(number) = self.by_text.get(text).copied() {
            if let Some(kept) = self.kept.get_mut(number as usize) {
                kept.uses = kept.uses.saturating_add(1);
            }
            return Name(number);
        }
        let text: Arc<str> = text.into();
        self.bytes += text.len() + COST;
        let number = self.kept.insert(Kept {
            text: Arc::clone(&text),
            uses: 1,
        });
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.by_text.insert(text, number);
        Name(number)
    }

    /// Uses a text once less. One that is not used any more is dropped.
    pub(super) fn remove(&mut self, name: Name) {
        let number = name.0 as usize;
        let Some(kept) = self.kept.get_mut(number) else {
            return;
        };
        kept.uses -= 1;
        if kept.uses == 0 {
            let kept = self.kept.remove(number);
            self.by_text.remove(&kept.text);
            self.bytes -= kept.text.len() + COST;
        }
    }

    /// The text of a name that is in use.
    pub(super) fn text(&self, name: Name) -> &str {
        self.kept.get(name.0 as usize).map_or("", |kept| &kept.text)
    }

    /// The memory that the texts take, about.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_as_long_as_it_is_used() {
        let mut names = Names::default();
        let first = names.add("HTTP 503");
        assert_eq!(names.add("HTTP 503"), first);
        let other = names.add("ECONNRESET");
        assert_eq!(
            (names.text(first), names.text(other)),
            ("HTTP 503", "ECONNRESET")
        );
        names.remove(first);
        assert_eq!(names.text(first), "HTTP 503");
        names.remove(first);
        names.remove(other);
        assert_eq!((names.bytes(), names.by_text.len()), (0, 0));
        for number in 0..1_000 {
            let name = names.add(&number.to_string());
            names.remove(name);
        }
        assert_eq!((names.bytes(), names.kept.capacity() < 10), (0, true));
    }
}
