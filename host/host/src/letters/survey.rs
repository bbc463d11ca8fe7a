//! What a survey has found.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use backstop_core::failure::Timestamp;
use backstop_dead_letters::redrive::To;
use backstop_dead_letters::{Attempts, End, Seen};
use serde::{Deserialize, Serialize};

use super::classify::Verdict;
use super::groups::{Grouping, LetterGroup, groups};
use super::row::Row;
use super::sample::Samples;

/// All letters of a queue that could be seen, at one time.
#[derive(Debug)]
pub struct Survey {
    pub(super) id: String,
    pub(super) at: Timestamp,
    pub(super) by: String,
    pub(super) policy: String,
    pub(super) attempts: Attempts,
    pub(super) pointer: Option<String>,
    pub(super) queues: Vec<QueueSeen>,
    pub(super) rows: Vec<Row>,
    pub(super) samples: Samples,
    /// What letters do not say and is assumed, with their number.
    pub(super) unknown: BTreeMap<&'static str, u64>,
}

/// What was seen of one dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueSeen {
    /// Its URL.
    pub queue: String,
    /// The letters that were seen.
    pub letters: u64,
    /// How many the queue reported at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<u64>,
    /// How many others held, which could not be seen.
    pub held_by_others: u64,
    /// How many arrived later and are left out.
    pub later: u64,
    /// How many are still invisible, for a while.
    pub not_made_visible: u64,
    /// Whether SQS shows the first letters of each group only.
    pub fifo: bool,
    /// Why there may be more, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

impl QueueSeen {
    pub(super) fn of(queue: &str, seen: &Seen) -> Self {
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        let is_behind = seen.fifo && seen.about.is_some_and(|about| about > seen.letters);
        let partial = match seen.end {
            End::Empty if seen.lacks_letters_of_others() => Some("others held some"),
            End::Empty if is_behind => Some("SQS shows the first letters of each group"),
            End::Empty => None,
            End::Later => Some("so many letters arrive that not all of those before them came"),
            End::Most => Some("more than the most letters of a survey are there"),
            End::Time => Some("those seen first were about to become visible"),
            End::Stopped => Some("it was stopped"),
            End::Receives => {
                Some("another receive could move letters away, by the queue's own redrive policy")
            }
        };
        Self {
            queue: queue.to_owned(),
            letters: number(seen.letters),
            about: seen.about.map(number),
            held_by_others: number(seen.held_by_others),
            later: number(seen.later),
            not_made_visible: number(seen.hidden),
            fifo: seen.fifo,
            partial: partial.map(str::to_owned),
        }
    }
}

/// A survey as operators see it, grouped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SurveyReport {
    /// Names it.
    pub survey: String,
    /// When it ended.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: String,
    /// The version that was asked what it would do.
    pub policy: String,
    /// Whether it was asked about a first attempt, as after a redrive, or about the last one.
    pub attempts: Attempts,
    /// The pointer into the bodies, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// What was seen of each dead-letter queue.
    pub queues: Vec<QueueSeen>,
    /// How many letters it has.
    pub letters: u64,
    /// How many of them come from elsewhere: another queue, a function or a topic.
    pub elsewhere: u64,
    /// How many letters there are for each verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// What letters do not say and is assumed, with their number.
    pub unknown: BTreeMap<String, u64>,
    /// What they are grouped by.
    pub grouped_by: Grouping,
    /// The groups, the largest first; 300 at most.
    pub groups: Vec<LetterGroup>,
    /// How many letters are in further groups.
    pub ungrouped: u64,
}

impl Survey {
    /// When it ended.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// As operators see it.
    pub fn report(&self, by: Grouping) -> SurveyReport {
        let (groups, ungrouped) = groups(&self.rows, by);
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        let verdicts = Verdict::ALL.into_iter().filter_map(|verdict| {
            let count = self
                .rows
                .iter()
                .filter(|row| row.verdict == verdict)
                .count();
            (count > 0).then(|| (verdict.as_str().to_owned(), number(count)))
        });
        let unknown = self.unknown.iter();
        SurveyReport {
            survey: self.id.clone(),
            at: self.at,
            by: self.by.clone(),
            policy: self.policy.clone(),
            attempts: self.attempts,
            pointer: self.pointer.clone(),
            queues: self.queues.clone(),
            letters: number(self.rows.len()),
            elsewhere: number(self.rows.iter().filter(|row| row.is_foreign).count()),
            verdicts: verdicts.collect(),
            unknown: unknown
                .map(|(what, count)| ((*what).to_owned(), *count))
                .collect(),
            grouped_by: by,
            groups,
            ungrouped,
        }
    }

    /// The chosen letters of each dead-letter queue, by their ids there, and how many of the chosen ones come from elsewhere and are left out.
    pub(super) fn chosen(
        &self,
        by: Grouping,
        chosen: &BTreeSet<String>,
        is_meant: impl Fn(&Row) -> bool,
    ) -> (BTreeMap<usize, Vec<String>>, u64) {
        let mut elsewhere = 0;
        let mut ids = BTreeMap::<usize, Vec<String>>::new();
        let groups = by.groups_of(&self.rows);
        for (row, group) in self.rows.iter().zip(groups) {
            if !is_meant(row) || !chosen.contains(&*group) {
                continue;
            }
            if row.is_foreign {
                elsewhere += 1;
            } else {
                ids.entry(row.queue).or_default().push(row.id.to_string());
            }
        }
        (ids, elsewhere)
    }

    /// The names of the groups that were found.
    pub(super) fn names(&self, by: Grouping) -> HashSet<Arc<str>> {
        by.groups_of(&self.rows).into_iter().collect()
    }
}

/// Where all letters of a run go: to the queue whose dead letters they are.
pub(super) fn home(url: &str) -> To {
    To::Queue(url.to_owned())
}
