//! The rows of `configuration.md`.

use super::bounds::numbers;
use super::{Key, keys};

/// The rows of a table in `configuration.md`.
pub fn rows_of(table: &str) -> Vec<String> {
    keys()
        .filter(|key| key.table == table)
        .filter_map(Key::row)
        .collect()
}

impl Key {
    /// Its row, if it has one.
    fn row(&self) -> Option<String> {
        if [self.row, self.shown, self.default] == [""; 3] {
            return None;
        }
        let meaning = match self.row {
            "" => without_capital(self.sentence.trim().trim_end_matches('.')),
            row => row.replace("{bounds}", numbers(self.bounds)),
        };
        // A table of one key is written as that key.
        let name = if self.table == "decisions" {
            self.path()
        } else {
            self.name()
        };
        let default = if self.shown.is_empty() {
            self.default
        } else {
            self.shown
        };
        Some(format!("| `{name}` | {meaning} | {default} |").replace("|  |", "| |"))
    }
}

/// A sentence as a part of another one. A name keeps its capitals.
fn without_capital(sentence: &str) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let (first, rest) = sentence.split_at(sentence.ceil_char_boundary(1));
    if word.chars().skip(1).any(char::is_uppercase) {
        sentence.to_owned()
    } else {
        format!("{}{rest}", first.to_lowercase())
    }
}
