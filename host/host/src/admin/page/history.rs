//! The last hours of the queues, added over all hosts, and what happened to them meanwhile.

use std::collections::BTreeMap;

use backstop_core::failure::Timestamp;

use super::chart::{Bar, Chart, in_a_bar};
use super::fleet::{Missing, all_missing};
use super::text::{clock, shown};
use super::view::View;
use crate::admin::audit::Done;
use crate::admin::history::{MINUTES, QueueHistory};
use crate::admin::routes::{HostAudit, HostHistory};

/// A minute in milliseconds.
const MINUTE: u64 = 60_000;

/// Something that happened to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) at: Timestamp,
    /// The queue; all of them without one.
    pub(super) queue: Option<String>,
    pub(super) text: String,
}

/// The last hours.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) queues: BTreeMap<String, QueueHistory>,
    /// The newest first.
    pub(super) marks: Vec<Mark>,
    pub(super) missing: Vec<Missing>,
}

/// How many minutes a view shows.
pub(super) fn minutes(view: &View<'_>) -> usize {
    let given = view.value("minutes").and_then(|it| it.parse().ok());
    given.filter(|it| (1..=MINUTES).contains(it)).unwrap_or(60)
}

impl Past {
    /// The last minutes of all hosts.
    pub(super) async fn of(view: &View<'_>, minutes: usize) -> Self {
        let text = minutes.to_string();
        let query = [("minutes", text.as_str())];
        let histories = view
            .fleet
            .get::<HostHistory>(&view.by, &["v1", "history"], &query);
        let audits = view.fleet.get::<HostAudit>(&view.by, &["v1", "audit"], &[]);
        let (histories, audits) = tokio::join!(histories, audits);
        let mut queues = BTreeMap::<String, QueueHistory>::new();
        let mut marks = Vec::new();
        for (host, history) in histories.of {
            for queue in history.queues {
                match queues.get_mut(&queue.queue) {
                    Some(sum) => sum.add_aligned(&queue),
                    None => drop(queues.insert(queue.queue.clone(), queue)),
                }
            }
            marks.extend(history.swaps.into_iter().map(|swap| Mark {
                at: swap.at,
                queue: Some(swap.queue),
                text: format!("swap to {} at {host}", swap.to),
            }));
        }
        let done = audits.of.into_iter().flat_map(|(_, audit)| audit.actions);
        marks.extend(done.flat_map(marks_of));
        // An action that reached several hosts is one mark for each text.
        marks.sort_by(|one, other| (other.at, &other.text).cmp(&(one.at, &one.text)));
        marks.dedup_by(|one, other| {
            one.queue == other.queue && one.text == other.text && other.at.0 - one.at.0 < 2_000
        });
        Self {
            queues,
            marks,
            missing: all_missing([histories.missing, audits.missing]),
        }
    }

    /// What happened to a queue.
    pub(super) fn marks_of<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a Mark> {
        let is_of = move |mark: &&Mark| mark.queue.as_deref().is_none_or(|it| it == queue);
        self.marks.iter().filter(is_of)
    }

    /// The attempts of a queue by outcome.
    pub(super) fn attempts(&self, queue: &str) -> Option<Chart<'static>> {
        let history = self.queues.get(queue)?;
        let minutes = history.succeeded.len();
        let step = in_a_bar(minutes);
        let marks: Vec<_> = self.marks_of(queue).collect();
        let bars = (0..minutes).step_by(step).map(|from| {
            let until = (from + step).min(minutes);
            let sum = |of: &[u64]| of.get(from..until).unwrap_or_default().iter().sum();
            let begin = history.from.0 + from as u64 * MINUTE;
            let end = history.from.0 + until as u64 * MINUTE;
            let marks = marks
                .iter()
                .filter(|mark| (begin..end).contains(&mark.at.0));
            Bar {
                at: clock(Timestamp(begin)),
                parts: vec![
                    sum(&history.succeeded),
                    sum(&history.retried),
                    sum(&history.dead_lettered) + sum(&history.discarded),
                ],
                marks: marks.map(|mark| shown(&mark.text)).collect(),
            }
        });
        Some(Chart {
            label: format!("Attempts of {queue} by outcome, {minutes} minutes until now"),
            parts: &["succeeded", "retried", "dead"],
            bars: bars.collect(),
            ends: [clock(history.from), "now (UTC)".to_owned()],
        })
    }
}

impl QueueHistory {
    /// Adds the minutes of another host, whose clock may be in the next minute already.
    fn add_aligned(&mut self, other: &Self) {
        let later = other.from.0.saturating_sub(self.from.0) / MINUTE;
        let earlier = self.from.0.saturating_sub(other.from.0) / MINUTE;
        let mut other = other.clone();
        other.shift(later as usize, earlier as usize);
        self.add(&other);
    }
}

/// What an action did to queues, if it did something that a chart should show.
fn marks_of(done: Done) -> Vec<Mark> {
    let action = done.action.trim_start_matches("/v1/");
    let is_shown = [
        "pause",
        "resume",
        "set",
        "wake",
        "reconsider",
        "rollback",
        "drain",
    ];
    let Some(result) = done
        .result
        .as_deref()
        .filter(|_| is_shown.contains(&action))
    else {
        return Vec::new();
    };
    let text = format!("{action} by {}: {result}", who(&done.by));
    let mark = |queue: Option<String>| Mark {
        at: done.at,
        queue,
        text: text.clone(),
    };
    if done.queues.is_empty() {
        vec![mark(None)]
    } else {
        done.queues
            .iter()
            .cloned()
            .map(|queue| mark(Some(queue)))
            .collect()
    }
}

/// The name that somebody has given, or where the request came from.
pub(super) fn who(by: &str) -> &str {
    let name = by.split_once("(claims to be `");
    let name = name
        .and_then(|(_, name)| name.strip_suffix("`)"))
        .unwrap_or(by);
    name.rsplit_once(" from ").map_or(name, |(name, _)| name)
}
