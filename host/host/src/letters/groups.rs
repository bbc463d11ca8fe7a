//! Letters of a survey by what they have in common.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use backstop_core::failure::{Milliseconds, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::classify::Verdict;
use super::row::Row;

/// The most groups of an answer.
const MOST: usize = 300;

/// How many ids of a group are shown.
const SAMPLES: usize = 3;

backstop_core::names! {
    /// What the letters of a survey are grouped by.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Grouping {
        /// The reason of the death and the code of the error.
        #[default]
        Cause = "cause",
        /// The version that decided.
        Policy = "policy",
        /// What similar errors have in common.
        Fingerprint = "fingerprint",
        /// Who put the letter into its queue.
        Origin = "origin",
        /// The queue, function or topic where it was before.
        Source = "source",
        /// What its body has at the pointer of the survey.
        Value = "value",
        /// What the policy would do with it.
        Answer = "answer",
        /// The dead-letter queue in which it is.
        Queue = "queue",
    }
}

impl Grouping {
    /// What the page calls it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Cause => "cause",
            Self::Policy => "version that decided",
            Self::Fingerprint => "text of the error",
            Self::Origin => "who put it there",
            Self::Source => "where it was before",
            Self::Value => "value in the body",
            Self::Answer => "what the policy would do",
            Self::Queue => "dead-letter queue",
        }
    }

    fn key(self, row: &Row) -> Key {
        let verdict = || Some(Arc::from(row.verdict.as_str()));
        match self {
            Self::Cause => vec![row.reason.clone(), row.code.clone()],
            Self::Policy => vec![row.policy.clone()],
            Self::Fingerprint => vec![row.fingerprint.clone()],
            Self::Origin => vec![row.origin.clone()],
            Self::Source => vec![row.source.clone()],
            Self::Value => vec![row.value.clone()],
            Self::Answer => vec![verdict(), Some(Arc::clone(&row.answer))],
            Self::Queue => vec![Some(Arc::clone(&row.queue_name))],
        }
    }

    /// The name of the group to which each letter belongs: the same for equal letters, and another for others.
    pub(super) fn groups_of(self, rows: &[Row]) -> Vec<Arc<str>> {
        let mut known = HashMap::<Key, Arc<str>>::new();
        let of = rows.iter().map(|row| {
            let key = self.key(row);
            if let Some(known) = known.get(&key) {
                return Arc::clone(known);
            }
            let name: Arc<str> = id(self, &key).into();
            known.insert(key, Arc::clone(&name));
            name
        });
        of.collect()
    }
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("`{text}` is nothing to group by: expected {names}")
        })
    }
}

/// What letters of a group have in common; `None` is what a letter does not say.
type Key = Vec<Option<Arc<str>>>;

/// A name for a key that fits into an address.
fn id(by: Grouping, key: &Key) -> String {
    let text = serde_json::to_vec(&(by, key)).unwrap_or_default();
    let hash = hex::encode(Sha256::digest(text));
    hash.get(..16).unwrap_or(&hash).to_owned()
}

/// Letters that have something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LetterGroup {
    /// Names the group when it is chosen.
    pub id: String,
    /// What they have in common, as the grouping says; `null` is what a letter does not say.
    pub key: Vec<Option<Arc<str>>>,
    /// How many they are.
    pub count: u64,
    /// When the first of them died.
    pub first: Timestamp,
    /// When the last of them died.
    pub last: Timestamp,
    /// Ids of the messages that some of them were.
    pub samples: Vec<String>,
    /// How many the policy would retry.
    pub retry: u64,
    /// How many would die again.
    pub dead_letter: u64,
    /// How many would be discarded.
    pub discard: u64,
    /// On how many the policy breaks.
    pub broken: u64,
    /// Of how many nobody has recorded the error.
    pub not_classified: u64,
    /// How many come from elsewhere.
    pub elsewhere: u64,
    /// The shortest delay of those that would be retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_delay: Option<Milliseconds>,
    /// The longest delay of those that would be retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_delay: Option<Milliseconds>,
}

impl LetterGroup {
    fn new(id: String, key: Key, died: Timestamp) -> Self {
        Self {
            id,
            key,
            count: 0,
            first: died,
            last: died,
            samples: Vec::new(),
            retry: 0,
            dead_letter: 0,
            discard: 0,
            broken: 0,
            not_classified: 0,
            elsewhere: 0,
            shortest_delay: None,
            longest_delay: None,
        }
    }

    fn add(&mut self, row: &Row) {
        self.count += 1;
        self.first = self.first.min(row.died);
        self.last = self.last.max(row.died);
        self.elsewhere += u64::from(row.is_foreign);
        *match row.verdict {
            Verdict::Retry => &mut self.retry,
            Verdict::DeadLetter => &mut self.dead_letter,
            Verdict::Discard => &mut self.discard,
            Verdict::Broken => &mut self.broken,
            Verdict::NotClassified => &mut self.not_classified,
        } += 1;
        if let Some(delay) = row.delay {
            let least = |known: Milliseconds| known.min(delay);
            let most = |known: Milliseconds| known.max(delay);
            self.shortest_delay = Some(self.shortest_delay.map_or(delay, least));
            self.longest_delay = Some(self.longest_delay.map_or(delay, most));
        }
        if self.samples.len() < SAMPLES {
            self.samples.push(row.original.to_string());
        }
    }
}

/// The groups, the largest first, and how many letters are in groups beyond the most.
pub(super) fn groups(rows: &[Row], by: Grouping) -> (Vec<LetterGroup>, u64) {
    let mut groups = HashMap::<Key, LetterGroup>::new();
    for row in rows {
        let key = by.key(row);
        let new = || LetterGroup::new(id(by, &key), key.clone(), row.died);
        if let Some(group) = groups.get_mut(&key) {
            group.add(row);
        } else {
            let mut group = new();
            group.add(row);
            groups.insert(key, group);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|one, other| {
        other
            .count
            .cmp(&one.count)
            .then_with(|| one.id.cmp(&other.id))
    });
    let left = groups.split_off(MOST.min(groups.len()));
    (groups, left.iter().map(|group| group.count).sum())
}
