//! Choosing among letters.

mod flags;

use std::collections::HashSet;
use std::fmt;
use std::io::BufRead;

use backstop_core::failure::{Timestamp, bounded_id};
use backstop_core::text::matches;
use backstop_json::Object;
use backstop_json::pointer::shown_at;

use crate::letter::Letter;
use crate::origin::Origin;

/// The longest line of a file of ids, in bytes.
const LINE_BYTES: u64 = 16 << 20;

/// The longest id, in bytes. Those of SQS have up to 100; the sender of a message may have chosen another one.
pub(crate) const LONGEST_ID: usize = 1024;

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
        matches(&self.0, text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which letters are chosen. Several values of one kind are alternatives; a letter has to fit every kind that has a value. Without any, every letter fits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filters {
    /// Message ids, or original ids.
    pub ids: Option<HashSet<String>>,
    /// The ids that the letters have in their dead-letter queue, which nobody else can give to one.
    pub letters: Option<HashSet<String>>,
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
        *self == Self::default()
    }

    /// The ids of the letters in their dead-letter queue, if nothing else chooses.
    pub(crate) fn only_letters(&self) -> Option<&HashSet<String>> {
        let letters = self.letters.as_ref()?;
        let alone = Self {
            letters: self.letters.clone(),
            ..Self::default()
        };
        (*self == alone).then_some(letters)
    }

    /// Whether no letter fits, since there are no ids among those that are meant.
    pub fn chooses_nothing(&self) -> bool {
        let mut sets = [&self.ids, &self.letters].into_iter().flatten();
        sets.any(HashSet::is_empty)
    }

    /// Whether the letter is chosen. An empty digest or text chooses nothing. What a letter does not say fits the pattern `*` only if it is the empty text.
    pub fn matches(&self, letter: &Letter) -> bool {
        let body = &letter.message.body;
        let alive = letter.last_alive();
        self.fits_ids(letter)
            && fits(&self.reasons, letter.reason.as_deref())
            && fits(&self.codes, letter.code())
            && fits(&self.classes, letter.class.as_deref())
            && self.fits_policy(letter)
            && one_of(&self.origins, |origin| *origin == letter.origin)
            && self.fits_source(letter)
            && self.since.is_none_or(|since| alive >= since)
            && self.until.is_none_or(|until| alive < until)
            && one_of(&self.fingerprints, |id| *id == letter.fingerprint().id())
            && one_of(&self.texts, |text| {
                !text.is_empty() && contains(letter, text)
            })
            && one_of(&self.values, |(pointer, expected)| {
                shown_at(body, pointer).is_some_and(|value| expected.matches(&value))
            })
    }

    fn fits_ids(&self, letter: &Letter) -> bool {
        let letters = self.letters.as_ref();
        letters.is_none_or(|ids| ids.contains(&letter.message.id))
            && self.ids.as_ref().is_none_or(|ids| {
                ids.contains(&letter.message.id)
                || ids.contains(&letter.original_id)
                // As records and logs have it.
                || ids.contains(bounded_id(&letter.original_id).as_ref())
            })
    }

    fn fits_policy(&self, letter: &Letter) -> bool {
        let digests = letter.policy.as_deref().unwrap_or_default();
        let of = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
        self.policies.is_empty()
            || digests.split(',').map(of).any(|digest| {
                let begins = |start: &String| {
                    let start = of(start);
                    !start.is_empty() && digest.starts_with(&start)
                };
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
        one_of(&self.sources, is)
    }
}

fn fits(patterns: &[Pattern], text: Option<&str>) -> bool {
    let text = text.unwrap_or_default();
    one_of(patterns, |pattern| pattern.matches(text))
}

/// Whether one of the alternatives fits, or there are none.
fn one_of<T>(alternatives: &[T], fits: impl FnMut(&T) -> bool) -> bool {
    alternatives.is_empty() || alternatives.iter().any(fits)
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
    /// A line has no id, or it is too long.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// Reads ids: one a line, as it is or as the `id` of a JSON object, which `--save` and `archive` write. Blank lines are skipped. All ids together may have `most` bytes.
pub fn read_ids(mut input: impl BufRead, most: usize) -> Result<HashSet<String>, IdsError> {
    let mut ids = HashSet::new();
    let mut bytes = 0;
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let read = std::io::Read::take(&mut input, LINE_BYTES).read_line(&mut line)?;
        if read == 0 {
            break;
        }
        let refused = |why: String| IdsError::Line { line: number, why };
        if u64::try_from(read).is_ok_and(|it| it >= LINE_BYTES) {
            return Err(refused(format!("it has more than {LINE_BYTES} bytes")));
        }
        let text = line.trim();
        let id = if text.starts_with('{') {
            Object::parse(text).ok().and_then(|it| it.text("id"))
        } else {
            (!text.contains(char::is_whitespace)).then(|| text.to_owned())
        };
        match id {
            Some(id) if id.is_empty() => {}
            Some(id) if id.len() > LONGEST_ID => {
                return Err(refused(format!(
                    "expected an id of {LONGEST_ID} bytes at most"
                )));
            }
            Some(id) => {
                let size = id.len();
                if ids.insert(id) {
                    bytes += size;
                }
                if bytes > most {
                    return Err(refused(format!(
                        "the ids up to here have more than {most} bytes, which is the most. Split the file"
                    )));
                }
            }
            None => {
                let why = "expected an id, or a JSON object with `id`";
                return Err(refused(why.to_owned()));
            }
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{By, Groups};
    use crate::letter::tests::letter;

    #[tokio::test]
    async fn a_letter_has_every_id_that_a_command_prints_of_it() {
        let long = "i".repeat(200);
        let found = letter(
            "{}",
            &[("BackstopReason", "r"), ("BackstopMessageId", &long)],
        )
        .await;
        let mut groups = Groups::new(vec![By::Reason], 10);
        groups.add(&found);
        let sample = groups.largest_first()[0].samples[0].clone();
        assert_eq!(sample, long, "the id that records know");
        let digest = bounded_id(&long).into_owned();
        for id in [sample, digest, found.message.id.clone()] {
            let ids = Some([id].into());
            let filters = Filters {
                ids,
                ..Filters::default()
            };
            assert!(filters.matches(&found), "{filters:?}");
        }
    }

    #[tokio::test]
    async fn each_filter_chooses_the_letter_that_fits_and_no_other() {
        let attributes = [
            ("BackstopReason", "permanent: HTTP 400"),
            ("BackstopMessageId", "first"),
            ("BackstopClass", "permanent"),
            ("BackstopError", "HTTP 400: no such article"),
            ("BackstopSource", "arn:aws:sqs:eu-west-1:1:orders"),
            ("BackstopPolicy", "sha256:abcd0123,sha256:ef45"),
        ];
        let mut found = letter(r#"{"customer": {"id": 7}}"#, &attributes).await;
        found.dead_since = Some(Timestamp(1_000));
        let ids = |id: &str| Some([id.to_owned()].into());
        let patterns = |text: &str| vec![Pattern::new(text)];
        let texts = |text: &str| vec![text.to_owned()];
        let value = |text: &str| vec![("/customer/id".to_owned(), Pattern::new(text))];
        let none = Filters::default;
        #[rustfmt::skip]
        let filters = [
            (Filters { ids: ids("first"), ..none() }, Filters { ids: ids("other"), ..none() }),
            (Filters { reasons: patterns("permanent: *"), ..none() }, Filters { reasons: patterns("transient: *"), ..none() }),
            (Filters { codes: patterns("HTTP 4*"), ..none() }, Filters { codes: patterns("HTTP 5*"), ..none() }),
            (Filters { classes: patterns("permanent"), ..none() }, Filters { classes: patterns("perm"), ..none() }),
            (Filters { policies: texts("ef45"), ..none() }, Filters { policies: texts("ef46"), ..none() }),
            (Filters { policies: texts("sha256:abcd"), ..none() }, Filters { policies: texts("cd01"), ..none() }),
            (Filters { origins: vec![Origin::Backstop], ..none() }, Filters { origins: vec![Origin::Sqs, Origin::Sns], ..none() }),
            (Filters { sources: patterns("orders"), ..none() }, Filters { sources: patterns("order"), ..none() }),
            (Filters { fingerprints: vec![found.fingerprint().id()], ..none() }, Filters { fingerprints: texts("00000000"), ..none() }),
            (Filters { texts: texts("customer"), ..none() }, Filters { texts: texts("Customer"), ..none() }),
            (Filters { texts: texts("no such article"), ..none() }, Filters { texts: texts("no such order"), ..none() }),
            (Filters { values: value("7"), ..none() }, Filters { values: value("8"), ..none() }),
            (Filters { since: Some(Timestamp(1_000)), ..none() }, Filters { since: Some(Timestamp(1_001)), ..none() }),
            (Filters { until: Some(Timestamp(1_001)), ..none() }, Filters { until: Some(Timestamp(1_000)), ..none() }),
        ];
        for (fits, fits_not) in filters {
            assert!(fits.matches(&found), "{fits:?}");
            assert!(!fits_not.matches(&found), "{fits_not:?}");
            assert!(!fits.is_empty());
        }
        // What is empty chooses nothing.
        for filter in [
            Filters {
                ids: Some(HashSet::new()),
                ..none()
            },
            Filters {
                texts: texts(""),
                ..none()
            },
            Filters {
                policies: texts("sha256:"),
                ..none()
            },
        ] {
            assert!(!filter.matches(&found) && !filter.is_empty(), "{filter:?}");
        }
        // Alternatives of one kind, and every kind that has a value.
        let either = Filters {
            codes: [patterns("x"), patterns("HTTP 400")].concat(),
            ..none()
        };
        assert!(either.matches(&found) && none().matches(&found));
        let both = Filters {
            classes: patterns("transient"),
            ..either
        };
        assert!(!both.matches(&found));
        let policy = "sha256:abcd0123,sha256:ef45".to_owned();
        assert_eq!(By::Policy.of(&found), Some(policy));
    }

    #[test]
    fn ids_are_lines_or_fields() {
        let text = "a\n\n {\"id\": \"b\", \"body\": \"x\"} \r\nc\r\n";
        let ids = read_ids(text.as_bytes(), 3).unwrap();
        assert_eq!(ids, ["a", "b", "c"].map(str::to_owned).into());
        for wrong in ["two words", "{\"name\": 1}", "{\"id\": 7}"] {
            let error = read_ids(wrong.as_bytes(), 100).unwrap_err();
            assert!(error.to_string().starts_with("line 1: "), "{error}");
        }
    }

    #[test]
    fn no_file_of_ids_fills_the_memory() {
        let refused = |input: &[u8]| read_ids(input, 1_000).unwrap_err().to_string();
        let long = "x".repeat(20 << 20);
        assert!(refused(long.as_bytes()).contains("more than 16777216 bytes"));
        let wide = format!("a\n{}\n", "x".repeat(1_025));
        assert!(refused(wide.as_bytes()).starts_with("line 2: expected an id of 1024"));
        let many: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert!(refused(many.as_bytes()).contains("more than 1000 bytes"));
        // An id that is there already takes no more.
        let same = "one-id\n".repeat(1_000);
        assert_eq!(read_ids(same.as_bytes(), 1_000).unwrap().len(), 1);
    }
}
