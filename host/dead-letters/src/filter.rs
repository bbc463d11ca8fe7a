//! Choosing among letters.

use std::collections::HashSet;
use std::io::BufRead;

use backstop_core::failure::Timestamp;
use backstop_json::Object;

use crate::letter::Letter;
use crate::origin::Origin;
use crate::pointer;

/// The longest line of a file of ids, in bytes.
const LINE_BYTES: u64 = 16 << 20;

/// A text in which `*` stands for any text.
///
/// ```
/// use backstop_dead_letters::Pattern;
///
/// let pattern = Pattern::new("HTTP 5*");
/// assert!(pattern.matches("HTTP 503"));
/// assert!(!pattern.matches("HTTP 404"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether the whole of `text` is as the pattern says.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.ends_with(last)
    }
}

/// Which letters are chosen. Several values of one kind are alternatives; a letter has to fit every kind that has a value. Without any, every letter fits.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// Message ids, or original ids.
    pub ids: Option<HashSet<String>>,
    /// The reason.
    pub reasons: Vec<Pattern>,
    /// The code of the error.
    pub codes: Vec<Pattern>,
    /// The class of the error.
    pub classes: Vec<Pattern>,
    /// The beginning of a policy's digest, with or without `sha256:`.
    pub policies: Vec<String>,
    /// Who put the letter into the queue.
    pub origins: Vec<Origin>,
    /// The ARN or the name of the queue, function or topic where it was before.
    pub sources: Vec<Pattern>,
    /// The eight digits of a fingerprint.
    pub fingerprints: Vec<String>,
    /// A text in the body, the reason or the error.
    pub texts: Vec<String>,
    /// A JSON pointer into the body, and the value there.
    pub values: Vec<(String, Pattern)>,
    /// Died at this time or later.
    pub since: Option<Timestamp>,
    /// Died before this time.
    pub until: Option<Timestamp>,
}

impl Filters {
    /// Whether every letter fits.
    pub fn is_empty(&self) -> bool {
        self.ids.is_none()
            && self.origins.is_empty()
            && self.policies.is_empty()
            && self.fingerprints.is_empty()
            && self.texts.is_empty()
            && self.values.is_empty()
            && self.since.is_none()
            && self.until.is_none()
            && [&self.reasons, &self.codes, &self.classes, &self.sources]
                .iter()
                .all(|patterns| patterns.is_empty())
    }

    /// Whether the letter is chosen. What a letter does not say fits the pattern `*` only if it is the empty text.
    pub fn matches(&self, letter: &Letter) -> bool {
        let body = &letter.message.body;
        let alive = letter.last_alive();
        self.fits_ids(letter)
            && fits(&self.reasons, letter.reason.as_deref())
            && fits(&self.codes, letter.code())
            && fits(&self.classes, letter.class.as_deref())
            && self.fits_policy(letter)
            && (self.origins.is_empty() || self.origins.contains(&letter.origin))
            && self.fits_source(letter)
            && self.since.is_none_or(|since| alive >= since)
            && self.until.is_none_or(|until| alive < until)
            && (self.fingerprints.is_empty()
                || self.fingerprints.contains(&letter.fingerprint().id()))
            && (self.texts.is_empty() || self.texts.iter().any(|text| contains(letter, text)))
            && (self.values.is_empty()
                || self.values.iter().any(|(pointer, expected)| {
                    pointer::at(body, pointer).is_some_and(|value| expected.matches(&value))
                }))
    }

    fn fits_ids(&self, letter: &Letter) -> bool {
        self.ids
            .as_ref()
            .is_none_or(|ids| ids.contains(&letter.message.id) || ids.contains(&letter.original_id))
    }

    fn fits_policy(&self, letter: &Letter) -> bool {
        let digests = letter.policy.as_deref().unwrap_or_default();
        let of = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
        self.policies.is_empty()
            || digests.split(',').map(of).any(|digest| {
                let begins = |start: &String| digest.starts_with(&of(start));
                !digest.is_empty() && self.policies.iter().any(begins)
            })
    }

    fn fits_source(&self, letter: &Letter) -> bool {
        let arn = letter.source.as_ref().map_or("", |source| source.arn());
        // The name of a function has its version or alias after another colon.
        let ends = arn
            .match_indices(':')
            .filter_map(|(at, _)| arn.get(at + 1..));
        let is =
            |pattern: &Pattern| pattern.matches(arn) || ends.clone().any(|it| pattern.matches(it));
        self.sources.is_empty() || self.sources.iter().any(is)
    }
}

fn fits(patterns: &[Pattern], text: Option<&str>) -> bool {
    let text = text.unwrap_or_default();
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
}

fn contains(letter: &Letter, text: &str) -> bool {
    let error = letter.error.as_ref().map(ToString::to_string);
    let places = [
        Some(&*letter.message.body),
        letter.reason.as_deref(),
        error.as_deref(),
    ];
    places.into_iter().flatten().any(|it| it.contains(text))
}

/// A file of ids can't be read.
#[derive(Debug, thiserror::Error)]
pub enum IdsError {
    /// The file can't be read to its end.
    #[error("can't read the ids")]
    Io(#[from] std::io::Error),
    /// A line has no id.
    #[error("line {line}: expected an id, or a JSON object with `id`")]
    NoId {
        /// Its number, from 1.
        line: u64,
    },
}

/// Reads ids: one a line, as it is or as the `id` of a JSON object, which `--save` and `archive` write. Blank lines are skipped.
pub fn read_ids(mut input: impl BufRead) -> Result<HashSet<String>, IdsError> {
    let mut ids = HashSet::new();
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let read = std::io::Read::take(&mut input, LINE_BYTES).read_line(&mut line)?;
        if read == 0 {
            break;
        }
        let text = line.trim();
        let id = match text.starts_with('{') {
            true => Object::parse(text).ok().and_then(|it| it.text("id")),
            false => (!text.contains(char::is_whitespace)).then(|| text.to_owned()),
        };
        match id {
            Some(id) if id.is_empty() => {}
            Some(id) => {
                ids.insert(id);
            }
            None => return Err(IdsError::NoId { line: number }),
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*b", "ab", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("*b*", "abc", true),
            ("ax*xa", "axa", false),
            ("*.fifo", "orders.fifo", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern}");
        }
    }

    #[test]
    fn ids_are_lines_or_fields() {
        let text = "a\n\n {\"id\": \"b\", \"body\": \"x\"} \r\nc\r\n";
        let ids = read_ids(text.as_bytes()).unwrap();
        assert_eq!(ids, ["a", "b", "c"].map(str::to_owned).into());
        for wrong in ["two words", "{\"name\": 1}", "{\"id\": 7}"] {
            let error = read_ids(wrong.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("line 1: "), "{error}");
        }
    }
}
