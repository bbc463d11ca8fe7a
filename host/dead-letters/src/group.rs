//! Counting letters by what they have in common.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use backstop_core::failure::Timestamp;
use backstop_core::text::cut;
use backstop_json::pointer::shown_at;

use crate::letter::Letter;

/// The longest part of a group's key, in bytes.
const KEY_BYTES: usize = 300;

/// How many ids of a group are kept.
const SAMPLES: usize = 3;

/// What letters are grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The reason.
    Reason,
    /// The code of the error.
    Code,
    /// The class of the error.
    Class,
    /// The digest of the policy that decided.
    Policy,
    /// What similar letters have in common.
    Fingerprint,
    /// Who put the letter into the queue.
    Origin,
    /// The queue, function or topic where it was before.
    Source,
    /// The value at a JSON pointer into the body.
    Pointer(String),
}

impl By {
    /// What the letter has there; `None` if it does not say.
    pub fn of(&self, letter: &Letter) -> Option<String> {
        let mut text = match self {
            Self::Reason => letter.reason.clone(),
            Self::Code => letter.code().map(str::to_owned),
            Self::Class => letter.class.clone(),
            Self::Policy => letter.policy.clone(),
            Self::Fingerprint => Some(letter.fingerprint().to_string()),
            Self::Origin => Some(letter.origin.to_string()),
            Self::Source => letter.source.as_ref().map(ToString::to_string),
            Self::Pointer(pointer) => shown_at(&letter.message.body, pointer),
        }?;
        cut(&mut text, KEY_BYTES);
        Some(text)
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reason => "reason",
            Self::Code => "code",
            Self::Class => "class",
            Self::Policy => "policy",
            Self::Fingerprint => "fingerprint",
            Self::Origin => "origin",
            Self::Source => "source",
            Self::Pointer(pointer) => pointer,
        })
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "reason" => Self::Reason,
            "code" => Self::Code,
            "class" => Self::Class,
            "policy" => Self::Policy,
            "fingerprint" => Self::Fingerprint,
            "origin" => Self::Origin,
            "source" => Self::Source,
            pointer if pointer.starts_with('/') => Self::Pointer(pointer.to_owned()),
            _ => {
                return Err(format!(
                    "`{text}` is nothing to group by: expected reason, code, class, policy, fingerprint, origin, source, or a JSON pointer such as /order/customer"
                ));
            }
        })
    }
}

/// Letters with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What they have in common, in the order of the groups' [`By`].
    pub key: Vec<Option<String>>,
    /// How many they are.
    pub count: usize,
    /// When the first of them died.
    pub first: Timestamp,
    /// When the last of them died.
    pub last: Timestamp,
    /// The ids of the messages that some of them were, which logs, records and every command know.
    pub samples: Vec<String>,
}

/// Letters counted by what they have in common, within a bounded number of groups.
#[derive(Debug)]
pub struct Groups {
    by: Vec<By>,
    most: usize,
    groups: BTreeMap<Vec<Option<String>>, Group>,
    /// Letters of further groups.
    ungrouped: usize,
}

impl Groups {
    /// At most this many groups.
    pub fn new(by: Vec<By>, most: usize) -> Self {
        Self {
            by,
            most,
            groups: BTreeMap::new(),
            ungrouped: 0,
        }
    }

    /// Counts a letter.
    pub fn add(&mut self, letter: &Letter) {
        let key: Vec<_> = self.by.iter().map(|by| by.of(letter)).collect();
        if self.groups.len() >= self.most && !self.groups.contains_key(&key) {
            self.ungrouped += 1;
            return;
        }
        let died = letter.last_alive();
        let group = self.groups.entry(key).or_insert_with_key(|key| Group {
            key: key.clone(),
            count: 0,
            first: died,
            last: died,
            samples: Vec::new(),
        });
        group.count += 1;
        group.first = group.first.min(died);
        group.last = group.last.max(died);
        if group.samples.len() < SAMPLES {
            group.samples.push(letter.original_id.clone());
        }
    }

    /// What the letters are grouped by.
    pub fn by(&self) -> &[By] {
        &self.by
    }

    /// The letters beyond the most groups.
    pub fn ungrouped(&self) -> usize {
        self.ungrouped
    }

    /// The groups, the largest first.
    pub fn largest_first(&self) -> Vec<&Group> {
        let mut groups: Vec<_> = self.groups.values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}
