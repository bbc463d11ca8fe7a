//! The ids of one message, as they are found: its records name some of them, and lead to records that name others.

use std::collections::HashSet;

use backstop_core::failure::bounded_id;

/// The most ids of a message: it may be sent again every 15 minutes for two weeks.
const MOST: usize = 2_000;

/// So many ids are searched one after another; if there are more, each text of a line is looked up.
const FEW: usize = 8;

/// The texts in a line of JSON, as they are written there.
struct Texts<'a>(&'a str);

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (_, rest) = self.0.split_once('"')?;
        let mut is_escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        let (text, after) = rest.split_at_checked(end)?;
        self.0 = after.get(1..)?;
        Some(text)
    }
}

/// The ids of one message that are known so far.
#[derive(Debug, Clone)]
pub struct KnownIds {
    ids: HashSet<String>,
    /// Each as JSON has it, in quotes.
    quoted: Vec<String>,
    /// Each as JSON has it, without quotes.
    written: HashSet<String>,
    /// Whether there were too many.
    is_full: bool,
}

impl KnownIds {
    /// One id. One of more than 128 bytes is known by its digest, too, as records have it.
    pub fn of(id: &str) -> Self {
        let mut known = Self {
            ids: HashSet::new(),
            quoted: Vec::new(),
            written: HashSet::new(),
            is_full: false,
        };
        known.add(id);
        known.add(&bounded_id(id));
        known
    }

    /// Whether the id is one of them.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are more than these.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds all of these ids if one of them is known. Returns whether one is.
    pub fn link<'a>(&mut self, ids: impl Iterator<Item = &'a str> + Clone) -> bool {
        let is_known = ids.clone().any(|id| self.contains(id));
        if is_known {
            ids.for_each(|id| self.add(id));
        }
        is_known
    }

    /// Whether a line of JSON may name one of them.
    pub(super) fn occur_in(&self, line: &str) -> bool {
        if self.quoted.len() <= FEW {
            return self.quoted.iter().any(|id| line.contains(id));
        }
        let mut texts = Texts(line);
        texts.any(|text| self.written.contains(text))
    }

    fn add(&mut self, id: &str) {
        // An empty one would be that of many messages.
        if id.is_empty() || self.ids.contains(id) {
            return;
        }
        if self.ids.len() == MOST {
            self.is_full = true;
            return;
        }
        self.ids.insert(id.to_owned());
        let quoted = serde_json::Value::from(id).to_string();
        let written = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        self.written.insert(written.to_owned());
        self.quoted.push(quoted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_named_together_are_those_of_one_message() {
        let mut ids = KnownIds::of("m-1");
        assert!(ids.link(["m-1", "m-2", ""].into_iter()));
        assert!(!ids.link(["m-3", "m-4"].into_iter()));
        assert!(ids.link(["m-5", "m-2"].into_iter()));
        assert_eq!(ids.count(), 3);
        assert!(ids.occur_in(r#"{"letter":"m-5"}"#));
        assert!(!ids.occur_in(r#"{"letter":"m-55"}"#));
    }

    #[test]
    fn there_are_so_many_of_them_at_most() {
        let mut ids = KnownIds::of("m");
        for number in 0..3_000 {
            ids.link(["m", &number.to_string()].into_iter());
        }
        assert_eq!((ids.count(), ids.is_full()), (MOST, true));
        assert!(ids.occur_in(r#"{"a":"\"","id":"1000"}"#));
        assert!(!ids.occur_in(r#"{"a":"\"1000\"","id":1000}"#));
    }
}
