//! The story of a message, whichever of its ids is asked for: each source names ids that lead to further lines, in itself and in the others.

use std::path::PathBuf;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::Action;
use backstop_core::failure::Timestamp;
use backstop_dead_letters::redrive::Runs;
use backstop_files::regular_file::described;
use backstop_workbench::replay::{Candidate, Happened, KnownIds, Life, LineRef, Lines, Step};
use serde_json::{Value, json};

use super::letters::{LetterStep, archived, redriven};
use crate::error::{Result, unreadable_input};
use crate::policy::replay::size;
use crate::terminal::{Progress, joined};

/// How often all files are read at most, unless that is quick. Each time, the message has got a further id.
const MOST_READS: usize = 20;

/// How long reading may take to be quick.
const QUICK: Duration = Duration::from_secs(30);

/// Where lines about a message are.
pub(super) struct Sources {
    /// Files of decision records.
    pub(super) records: Vec<PathBuf>,
    /// A copy of standard input, if that is one of them.
    pub(super) stdin: Option<PathBuf>,
    /// Archives of letters.
    pub(super) archives: Vec<PathBuf>,
    /// Runs of redrives.
    pub(super) runs: Option<Runs>,
    /// Whether no progress is shown.
    pub(super) is_quiet: bool,
}

/// What is known of a message.
pub(super) struct Story {
    /// Its ids.
    pub(super) ids: KnownIds,
    /// What the records have.
    pub(super) life: Life,
    letters: Vec<LetterStep>,
    /// What could not be read, so that the story may be a part.
    pub(super) gaps: Vec<String>,
}

/// A step of the story.
#[derive(Clone, Copy)]
pub(super) enum Told<'a> {
    /// An attempt that failed, and the decision.
    Decided(&'a Step),
    /// What happened to the message or to its queue.
    Happened(&'a Happened),
    /// What happened to its letter.
    Letter(&'a LetterStep),
}

impl Sources {
    /// Reads all of them, and again as long as further ids turn up.
    pub(super) fn read(&self, id: &str, candidate: Option<&Candidate>) -> Result<Story> {
        let bytes = size(&self.records)?;
        for archive in &self.archives {
            let expected = "expected a file of `backstop dlq archive`";
            described(archive).map_err(unreadable_input("the letters", archive, expected))?;
        }
        let mut ids = KnownIds::of(id);
        let mut reads = 0;
        let began = clock::instant();
        loop {
            let before = ids.count();
            let (mut letters, mut gaps) = archived(&self.archives, &mut ids)?;
            if let Some(runs) = &self.runs {
                let (steps, unread) = redriven(runs, &mut ids);
                letters.extend(steps);
                gaps.extend(unread);
            }
            let mut lines = Lines::of(self.records.clone()).with_copy_of_stdin(self.stdin.clone());
            let reading = if self.is_quiet {
                Progress::hidden()
            } else {
                Progress::bytes(bytes, "records")
            };
            let life = Life::read(&mut ids, &mut lines, |read| reading.set(read))?;
            drop(reading);
            reads += 1;
            let is_whole = ids.count() == before;
            if is_whole || (reads >= MOST_READS && began.elapsed() > QUICK) {
                if !is_whole || ids.is_full() {
                    let text = "the message has more ids than are followed: lines may be missing";
                    gaps.push(text.to_owned());
                }
                if life.left_out_of_queues > 0 {
                    let text = "pauses of queues are left out: there are too many";
                    gaps.push(text.to_owned());
                }
                let life = match candidate {
                    Some(candidate) => life.answered_by(candidate),
                    None => life,
                };
                return Ok(Story {
                    ids,
                    life,
                    letters,
                    gaps,
                });
            }
        }
    }
}

impl Story {
    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.life.decisions.is_empty() && self.life.events.is_empty() && self.letters.is_empty()
    }

    /// All steps by their times.
    pub(super) fn steps(&self) -> Vec<Told<'_>> {
        let decisions = self.life.decisions.iter().map(Told::Decided);
        let events = self.life.events.iter().map(Told::Happened);
        let letters = self.letters.iter().map(Told::Letter);
        let mut steps: Vec<_> = decisions.chain(events).chain(letters).collect();
        steps.sort_by_key(|it| it.time());
        steps
    }

    /// The ids of the message, in the order in which the steps name them.
    pub(super) fn named(&self) -> Vec<&str> {
        let mut named: Vec<&str> = Vec::new();
        for step in self.steps() {
            for id in step.ids() {
                if self.ids.contains(id) && !named.contains(&id) {
                    named.push(id);
                }
            }
        }
        named
    }

    /// As JSON: the decisions with their records, and all steps in their order.
    pub(super) fn json(&self, asked: &str) -> Value {
        let named = self.named();
        let steps: Vec<_> = self.steps().into_iter().map(Told::json).collect();
        let life = &self.life;
        json!({
            "message-id": named.first().copied().unwrap_or(asked),
            "decisions": life.decisions,
            "left-out": life.left_out,
            "unreadable": life.unreadable,
            "gaps": self.gaps,
            "ids": named,
            "steps": steps,
        })
    }
}

impl<'a> Told<'a> {
    /// When it happened.
    pub(super) fn time(self) -> Timestamp {
        match self {
            Self::Decided(step) => step.record.time,
            Self::Happened(step) => step.record.time,
            Self::Letter(step) => step.time,
        }
    }

    /// The line that says so.
    pub(super) fn at(self) -> &'a LineRef {
        match self {
            Self::Decided(step) => &step.at,
            Self::Happened(step) => &step.at,
            Self::Letter(step) => &step.at,
        }
    }

    /// The name of the queue, if a record says it.
    pub(super) fn queue(self) -> Option<&'a str> {
        match self {
            Self::Decided(step) => Some(&step.record.queue),
            Self::Happened(step) => Some(&step.record.queue),
            Self::Letter(_) => None,
        }
    }

    /// The ids of the message that it names, in the order in which the message got them.
    fn ids(self) -> Vec<&'a str> {
        match self {
            Self::Decided(step) => step.record.ids().collect(),
            Self::Happened(step) => {
                let message = step.record.message.as_ref();
                let ids = message.into_iter().flat_map(|it| it.iter());
                ids.chain(step.record.event.new_id()).collect()
            }
            Self::Letter(step) => step.ids().collect(),
        }
    }

    fn json(self) -> Value {
        match self {
            Self::Decided(step) => {
                let record = &step.record;
                let (decision, failure) = (&record.decision, &record.failure);
                let mut told = json!({
                    "time": record.time,
                    "at": step.at,
                    "event": "decided",
                    "queue": record.queue,
                    "message-id": failure.message_id,
                    "attempt": failure.attempt,
                    "error": failure.error.to_string(),
                    "class": decision.class,
                    "verdict": decision.action.verdict().as_str(),
                });
                if let Action::Retry { delay } = decision.action {
                    told = joined(told, json!({ "delay": delay }));
                }
                joined(told, json!(record.others))
            }
            Self::Happened(step) => json!(step),
            Self::Letter(step) => json!(step),
        }
    }
}
