//! Which of the waiting messages are meant.

use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZeroU32;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::failure::Timestamp;
use crate::text::{cut, matches};
use backstop_queue::envelope::carried;

/// The longest code that is remembered, in bytes. A longer one is cut.
pub(super) const CODE_BYTES: usize = 256;

/// Some of the waiting messages: those that match each kind that is given. A list that was sent empty is refused: it would choose nothing, and must not pass for one that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Filter {
    /// Messages that failed with one of these error codes. In a code and a class, `*` stands for any text.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_least_one"
    )]
    pub code: Vec<String>,
    /// Messages whose failure has one of these classes.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_least_one"
    )]
    pub class: Vec<String>,
    /// Messages with this number of failed attempts.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_least_one"
    )]
    pub attempt: Vec<NonZeroU32>,
    /// The messages with these ids.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_least_one"
    )]
    pub id: Vec<String>,
    /// Messages of one of these groups, if the queue's messages are grouped. An empty text is that of messages without one.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_least_one"
    )]
    pub group: Vec<String>,
    /// Messages that are due after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_after: Option<Timestamp>,
    /// Messages that had failed by this time: those that a preview has counted, and none that came later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_until: Option<Timestamp>,
}

/// What a filter can go by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) code: &'a str,
    pub(super) class: &'a str,
    pub(super) attempt: u32,
    pub(super) due: Timestamp,
    pub(super) failed: Timestamp,
    pub(super) group: &'a str,
}

/// A list that is given has something in it.
fn at_least_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    if list.is_empty() {
        Err(D::Error::custom(
            "an empty list chooses no message: leave it out, or name at least one",
        ))
    } else {
        Ok(list)
    }
}

impl Filter {
    /// Whether every message matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Texts that are wanted.
#[derive(Debug, Clone)]
struct Texts {
    /// Each as it is, as it is remembered, and as an envelope carries it.
    forms: HashSet<String>,
    /// Those with a `*`.
    patterns: Vec<String>,
}

impl Texts {
    fn of(wanted: &[String]) -> Self {
        let forms = wanted.iter().flat_map(|it| {
            let (remembered, carried) = (remembered(it).into_owned(), carried(it).into_owned());
            [it.clone(), remembered, carried]
        });
        let patterns = wanted.iter().filter(|it| it.contains('*')).cloned();
        Self {
            forms: forms.collect(),
            patterns: patterns.collect(),
        }
    }

    fn has(&self, text: &str) -> bool {
        let is_like = |pattern: &String| matches(pattern, text);
        self.forms.is_empty() || self.forms.contains(text) || self.patterns.iter().any(is_like)
    }
}

/// A filter that is quick however many codes and ids it has.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    codes: Texts,
    classes: Texts,
    ids: HashSet<String>,
    attempts: HashSet<u32>,
    groups: HashSet<String>,
    due_after: Option<Timestamp>,
    failed_until: Option<Timestamp>,
}

impl Matcher {
    pub(super) fn of(filter: &Filter) -> Self {
        Self {
            codes: Texts::of(&filter.code),
            classes: Texts::of(&filter.class),
            ids: filter.id.iter().cloned().collect(),
            attempts: filter.attempt.iter().map(|it| it.get()).collect(),
            groups: filter.group.iter().cloned().collect(),
            due_after: filter.due_after,
            failed_until: filter.failed_until,
        }
    }

    /// Whether it goes by the groups of messages.
    pub(super) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether a message matches, apart from its id.
    pub(super) fn matches(&self, seen: Seen<'_>) -> bool {
        self.codes.has(seen.code)
            && self.classes.has(seen.class)
            && (self.attempts.is_empty() || self.attempts.contains(&seen.attempt))
            && (self.groups.is_empty() || self.groups.contains(seen.group))
            && self.due_after.is_none_or(|after| seen.due > after)
            && self.failed_until.is_none_or(|until| seen.failed <= until)
    }

    /// Whether the message with this id matches.
    pub(super) fn names(&self, id: impl FnOnce() -> String) -> bool {
        self.ids.is_empty() || self.ids.contains(&id())
    }
}

/// A code as it is remembered.
pub(super) fn remembered(code: &str) -> Cow<'_, str> {
    if code.len() > CODE_BYTES {
        let mut text = code.to_owned();
        cut(&mut text, CODE_BYTES);
        Cow::Owned(text)
    } else {
        Cow::Borrowed(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::envelope::CARRIED_BYTES;

    const SEEN: Seen<'_> = Seen {
        code: "HTTP 503",
        class: "transient",
        attempt: 3,
        due: Timestamp(1_000),
        failed: Timestamp(500),
        group: "acme",
    };

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn a_message_matches_if_it_matches_every_list() {
        let attempt = |it| vec![NonZeroU32::new(it).unwrap()];
        for (filter, matches) in [
            (Filter::default(), true),
            (
                Filter {
                    code: texts(&["HTTP 500", "HTTP 503"]),
                    ..Filter::default()
                },
                true,
            ),
            (
                Filter {
                    code: texts(&["HTTP 50", "http 503"]),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    code: texts(&["HTTP 5*"]),
                    class: texts(&["*"]),
                    ..Filter::default()
                },
                true,
            ),
            (
                Filter {
                    code: texts(&["HTTP 4*", "5*"]),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    code: texts(&["HTTP 503"]),
                    class: texts(&["throttled"]),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    attempt: attempt(3),
                    due_after: Some(Timestamp(999)),
                    ..Filter::default()
                },
                true,
            ),
            (
                Filter {
                    attempt: attempt(4),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    due_after: Some(Timestamp(1_000)),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    group: texts(&["globex", "acme"]),
                    ..Filter::default()
                },
                true,
            ),
            // A group is no pattern: a sender may call it `*`.
            (
                Filter {
                    group: texts(&["*", "acm*", "Acme", ""]),
                    ..Filter::default()
                },
                false,
            ),
            (
                Filter {
                    failed_until: Some(Timestamp(500)),
                    ..Filter::default()
                },
                true,
            ),
            (
                Filter {
                    failed_until: Some(Timestamp(499)),
                    ..Filter::default()
                },
                false,
            ),
        ] {
            assert_eq!(Matcher::of(&filter).matches(SEEN), matches, "{filter:?}");
        }
        let named = Filter {
            id: texts(&["m-1"]),
            ..Filter::default()
        };
        let named = Matcher::of(&named);
        assert!(named.names(|| "m-1".to_owned()) && !named.names(|| "m-2".to_owned()));
    }

    #[test]
    fn a_list_that_is_sent_empty_is_no_missing_one() {
        for list in ["code", "class", "attempt", "id", "group"] {
            let sent = format!(r#"{{"{list}": []}}"#);
            let refused = serde_json::from_str::<Filter>(&sent).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("chooses no message"), "{list}: {text}");
        }
        let filter: Filter = serde_json::from_str(r#"{"code": [""]}"#).unwrap();
        assert!(!filter.is_empty() && !Matcher::of(&filter).matches(SEEN));
    }

    #[test]
    fn a_long_or_odd_code_is_found_however_it_is_kept() {
        for code in ["x".repeat(4_096), "é\"\u{1b}[2J".to_owned()] {
            let filter = Filter {
                code: vec![code.clone()],
                ..Filter::default()
            };
            let (cut, carried) = (remembered(&code), carried(&code));
            assert!(carried.len() <= CARRIED_BYTES && cut.len() <= CODE_BYTES);
            for code in [&*cut, &*carried] {
                assert!(
                    Matcher::of(&filter).matches(Seen { code, ..SEEN }),
                    "{code}"
                );
            }
        }
    }
}
