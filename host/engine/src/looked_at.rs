//! What a policy read of a message's body in one decision. Together with the failure, that is the complete input of the decision.

use std::collections::{BTreeMap, BTreeSet};

/// The most bytes that are kept for the decision record: pointers, texts, and [`ENTRY`] for each.
const KEPT: usize = 64 << 10;

/// The bytes that the record adds to each pointer.
const ENTRY: usize = 8;

/// The most pointers that are listed as unknown.
const UNKNOWN: usize = 100;

/// The parts of the body that a policy read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookedAt {
    /// The texts by pointer, or none where the body has nothing there; at most 64 KiB in all.
    pub parts: BTreeMap<String, Option<String>>,
    /// The number of reads that are not among the parts, because they did not fit.
    pub left_out: u64,
    /// Pointers for which a recorded body has no information; at most 100 of them.
    pub unknown: BTreeSet<String>,
    /// The bytes of all pointers and texts that were read, repeated reads included.
    pub bytes_read: usize,
    kept: usize,
}

impl LookedAt {
    /// The policy read this pointer, with this result.
    pub(super) fn add(&mut self, pointer: String, found: Option<&str>) {
        if let Some(text) = found {
            self.bytes_read += pointer.len() + text.len();
        }
        self.keep(pointer, found.map(str::to_owned));
    }

    /// The policy read this pointer, for which there is no information.
    pub(super) fn add_unknown(&mut self, pointer: &str) {
        if self.unknown.len() < UNKNOWN {
            self.unknown.insert(pointer.to_owned());
        }
    }

    /// Adds the reads of another part of the policy.
    pub(super) fn extend(&mut self, other: Self) {
        self.bytes_read += other.bytes_read;
        self.left_out += other.left_out;
        for pointer in &other.unknown {
            self.add_unknown(pointer);
        }
        for (pointer, found) in other.parts {
            self.keep(pointer, found);
        }
    }

    fn keep(&mut self, pointer: String, found: Option<String>) {
        if self.parts.contains_key(&pointer) {
            return;
        }
        let size = ENTRY + pointer.len() + found.as_ref().map_or(0, String::len);
        if self.kept + size > KEPT {
            self.left_out += 1;
            return;
        }
        self.kept += size;
        self.parts.insert(pointer, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_a_record_may_hold_and_what_is_left_out_is_counted() {
        let mut looked_at = LookedAt::default();
        for number in 0..240_000 {
            looked_at.add(format!("/{number}"), None);
        }
        let kept = looked_at.parts.len();
        assert!((3_000..9_000).contains(&kept), "{kept}");
        assert_eq!(looked_at.left_out, 240_000 - kept as u64);
        assert_eq!(looked_at.bytes_read, 0);

        // A text that does not fit leaves space for others; a repeated read costs nothing.
        let mut looked_at = LookedAt::default();
        looked_at.add(String::new(), Some(&"x".repeat(KEPT)));
        looked_at.add("/a".to_owned(), Some("1"));
        looked_at.add("/a".to_owned(), Some("1"));
        assert_eq!(looked_at.left_out, 1);
        assert_eq!(looked_at.parts.len(), 1);
        assert_eq!(looked_at.bytes_read, KEPT + 3 + 3);
        let mut both = looked_at.clone();
        both.extend(looked_at);
        assert_eq!((both.left_out, both.parts.len()), (2, 1));
    }
}
