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
pub struct PayloadReads {
    /// The texts by pointer. `None` if the body has no value there. At most 64 KiB in total.
    pub parts: BTreeMap<String, Option<String>>,
    /// The number of reads that are not among the parts, because of the size limit.
    pub left_out: u64,
    /// Pointers for which a recorded body has no information; at most 100 of them.
    pub unknown: BTreeSet<String>,
    /// The bytes of all pointers and texts that were read, repeated reads included.
    pub bytes_read: usize,
    kept: usize,
}

impl PayloadReads {
    /// Whether it read anything, even a part that the body does not have.
    pub fn has_any(&self) -> bool {
        !self.parts.is_empty() || self.left_out > 0
    }

    /// Records that the policy read this pointer, with this result.
    pub(super) fn add(&mut self, pointer: String, found: Option<&str>) {
        if let Some(text) = found {
            self.bytes_read += pointer.len() + text.len();
        }
        self.keep(pointer, found.map(str::to_owned));
    }

    /// Records that the policy read this pointer, for which there is no information.
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
    fn parts_are_limited_and_the_number_of_omitted_ones_is_counted() {
        let mut payload_reads = PayloadReads::default();
        for number in 0..240_000 {
            payload_reads.add(format!("/{number}"), None);
        }
        assert!(payload_reads.has_any() && !PayloadReads::default().has_any());
        let kept = payload_reads.parts.len();
        assert!((3_000..9_000).contains(&kept), "{kept}");
        assert_eq!(payload_reads.left_out, 240_000 - kept as u64);
        assert_eq!(payload_reads.bytes_read, 0);

        // A text that does not fit leaves space for others; a repeated read costs nothing.
        let mut payload_reads = PayloadReads::default();
        payload_reads.add(String::new(), Some(&"x".repeat(KEPT)));
        payload_reads.add("/a".to_owned(), Some("1"));
        payload_reads.add("/a".to_owned(), Some("1"));
        assert_eq!(payload_reads.left_out, 1);
        assert_eq!(payload_reads.parts.len(), 1);
        assert_eq!(payload_reads.bytes_read, KEPT + 3 + 3);
        let mut both = payload_reads.clone();
        both.extend(payload_reads);
        assert_eq!((both.left_out, both.parts.len()), (2, 1));
    }
}
