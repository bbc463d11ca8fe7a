//! The words and numbers that a policy's file contains: a failure that a policy treats in its own way often has one of them, and arbitrary text never has.
//!
//! Fuzzers call this a dictionary. `constants` finds what the code compares with, `text` what the data holds, and `insert` puts it into failures. A runtime has thousands of words of its own, so they are ordered by how likely they are the author's, and limited.

mod constants;
mod insert;
mod text;

use std::collections::BTreeSet;

use backstop_engine::Shape;
use wasmparser::{Data, DataKind, Operator, Parser, Payload};

use constants::Constants;

/// The most words of each kind.
const WORDS: usize = 300;

/// The most numbers.
const NUMBERS: usize = 100;

/// The most bytes of a word, and the fewest.
const LONGEST: usize = 64;
const SHORTEST: usize = 2;

/// The code of a larger module is a language's runtime: what it compares with is not the author's.
const OWN_CODE: usize = 256 << 10;

/// What a policy's file says about the failures that it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dictionary {
    /// Texts that the code compares with or refers to, and literals. In the order in which they were found: words that belong together are near each other.
    words: Vec<String>,
    /// Other text of the data.
    others: Vec<String>,
    numbers: Vec<u32>,
}

impl Dictionary {
    /// Of a policy's file: a component, a module, or the text of either. Empty if a host would reject its [`Shape`].
    pub(super) fn of(file: &[u8]) -> Self {
        let Ok(binary) = wat::parse_bytes(file) else {
            return Self::default();
        };
        if Shape::of(&binary).is_err() {
            return Self::default();
        }
        let mut found = Found::default();
        // What was read before an error counts.
        let _ = found.read(&binary);
        found.dictionary()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.others.is_empty() && self.numbers.is_empty()
    }
}

/// A part of a memory, as the module initialises it.
struct Segment<'a> {
    /// Where it starts, if that is known.
    start: Option<u32>,
    bytes: &'a [u8],
}

impl<'a> Segment<'a> {
    fn of(data: &Data<'a>) -> Self {
        let start = match &data.kind {
            DataKind::Active { offset_expr, .. } => {
                match offset_expr.get_operators_reader().read() {
                    Ok(Operator::I32Const { value }) => Some(value.cast_unsigned()),
                    _ => None,
                }
            }
            DataKind::Passive => None,
        };
        Self {
            start,
            bytes: data.data,
        }
    }

    /// The bytes at an address.
    fn at(&self, address: u32, length: u32) -> Option<&'a [u8]> {
        let start = address.checked_sub(self.start?)? as usize;
        self.bytes.get(start..start.checked_add(length as usize)?)
    }
}

/// What is found in one module after the other: the most likely words first.
#[derive(Default)]
struct Found {
    /// Those that the code compares with, or refers to with their length.
    exact: Vec<String>,
    /// The literals of a source text that is part of the data.
    quoted: Vec<String>,
    /// Other text of the data.
    others: Vec<String>,
    numbers: Vec<u32>,
}

impl Found {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only code and data have words"
    )]
    fn read(&mut self, binary: &[u8]) -> wasmparser::Result<()> {
        let (mut constants, mut segments) = (Constants::default(), Vec::new());
        let mut is_own = false;
        for payload in Parser::new(0).parse_all(binary) {
            match payload? {
                Payload::CodeSectionStart { size, .. } => is_own = size as usize <= OWN_CODE,
                Payload::CodeSectionEntry(body) if is_own => constants.read(&body)?,
                Payload::DataSection(section) => {
                    for data in section {
                        segments.push(Segment::of(&data?));
                    }
                }
                Payload::End(_) => {
                    self.end_module(&std::mem::take(&mut constants), &segments);
                    segments.clear();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn end_module(&mut self, constants: &Constants, segments: &[Segment<'_>]) {
        self.numbers.extend(constants.numbers());
        self.exact.extend(constants.words(segments));
        for segment in segments {
            text::words(segment.bytes, &mut self.quoted, &mut self.others);
        }
    }

    fn dictionary(self) -> Dictionary {
        let mut seen = BTreeSet::new();
        let numbers: BTreeSet<_> = self.numbers.into_iter().collect();
        Dictionary {
            words: likely(self.exact.into_iter().chain(self.quoted), &mut seen),
            others: likely(self.others, &mut seen),
            numbers: numbers.into_iter().take(NUMBERS).collect(),
        }
    }
}

/// The last words that were not seen before: a runtime's own come first, and the author's after them.
fn likely(words: impl IntoIterator<Item = String>, seen: &mut BTreeSet<String>) -> Vec<String> {
    let new =
        |word: &String| (SHORTEST..=LONGEST).contains(&word.len()) && seen.insert(word.clone());
    let words: Vec<_> = words.into_iter().filter(new).collect();
    let first = words.len().saturating_sub(WORDS);
    words.into_iter().skip(first).collect()
}

#[cfg(test)]
mod tests;
