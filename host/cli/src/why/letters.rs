//! What became of the letters of a message: archived, redriven, and dead again. Archives and the journals of redrives say so.

use std::path::PathBuf;

use backstop_core::failure::Timestamp;
use backstop_core::text::chain;
use backstop_dead_letters::ArchivedLetter;
use backstop_dead_letters::redrive::{Entry, Plan, RedriveError, Runs};
use backstop_workbench::replay::{KnownIds, LineRef, Lines, ReadError};
use serde::Serialize;

/// The most lines that are no letters and are named.
const MOST_UNREAD: usize = 5;

/// What happened to a letter.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LetterStep {
    /// The line that says so.
    pub(super) at: LineRef,
    /// When.
    pub(super) time: Timestamp,
    /// The id of the letter.
    pub(super) letter_id: String,
    /// What.
    #[serde(flatten)]
    pub(super) event: LetterEvent,
}

/// Something that happened to a letter.
#[derive(Debug, Clone, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub(super) enum LetterEvent {
    /// It was archived.
    Archived {
        /// The ARN of its queue.
        dead_letter_queue: String,
    },
    /// A redrive has sent it.
    Redriven {
        /// The run.
        #[serde(flatten)]
        run: Run,
        /// Its id in its target, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_as: Option<String>,
    },
    /// A redrive could not send it.
    RedriveRefused {
        /// The run.
        #[serde(flatten)]
        run: Run,
        /// Why not.
        reason: String,
    },
    /// A redrive has seen that it had died again.
    CameBack {
        /// The run.
        #[serde(flatten)]
        run: Run,
        /// The id of the new letter.
        new_letter_id: String,
    },
}

/// A run of `dlq redrive`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Run {
    /// Its id.
    pub(super) run: String,
    /// Who started it.
    pub(super) who: String,
    /// Why, in the words of who started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl LetterStep {
    /// The ids that it names, in the order in which the message got them.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        let new = match &self.event {
            LetterEvent::Redriven { sent_as, .. } => sent_as.as_deref(),
            LetterEvent::CameBack { new_letter_id, .. } => Some(new_letter_id.as_str()),
            LetterEvent::Archived { .. } | LetterEvent::RedriveRefused { .. } => None,
        };
        std::iter::once(self.letter_id.as_str()).chain(new)
    }
}

/// The letters with these ids in archives, and the lines that name one and are no letters. Adds the ids that they name.
pub(super) fn archived(
    archives: &[PathBuf],
    ids: &mut KnownIds,
) -> Result<(Vec<LetterStep>, Vec<String>), ReadError> {
    let (mut steps, mut unread) = (Vec::new(), Vec::new());
    let mut lines = Lines::of(archives.to_vec());
    lines.naming(
        ids,
        &[],
        |_| {},
        |ids, line| {
            let archived = match ArchivedLetter::parse(line.text()) {
                Ok(archived) => archived,
                Err(error) => {
                    if unread.len() < MOST_UNREAD {
                        unread.push(format!(
                            "{} names the message and is no letter: {error}",
                            line.place
                        ));
                    }
                    return;
                }
            };
            let letter = archived.letter();
            if ids.link([archived.id.as_str(), &letter.original_id].into_iter()) {
                steps.push(LetterStep {
                    at: line.place.clone(),
                    time: archived.archived,
                    letter_id: archived.id,
                    event: LetterEvent::Archived {
                        dead_letter_queue: archived.queue,
                    },
                });
            }
        },
    )?;
    Ok((steps, unread))
}

/// What redrives did with letters that have these ids, and the runs that can't be read, each with the reason. Adds the ids that their journals name.
pub(super) fn redriven(runs: &Runs, ids: &mut KnownIds) -> (Vec<LetterStep>, Vec<String>) {
    let (mut steps, mut unread) = (Vec::new(), Vec::new());
    let all = runs.ids().unwrap_or_else(|error| {
        unread.push(format!(
            "the runs of redrives can't be read: {}",
            chain(&error)
        ));
        Vec::new()
    });
    for id in all {
        if let Err(error) = read_run(runs, &id, ids, &mut steps) {
            unread.push(format!("the run {id} can't be read: {}", chain(&error)));
        }
    }
    (steps, unread)
}

fn read_run(
    runs: &Runs,
    id: &str,
    ids: &mut KnownIds,
    steps: &mut Vec<LetterStep>,
) -> Result<(), RedriveError> {
    let folder = runs.find(id)?;
    let plan = folder.plan()?;
    let mut reader = JournalReader {
        file: folder.journal().display().to_string().into(),
        now: plan.started,
        plan,
        ids,
        steps,
    };
    folder.entries(|line, entry| reader.read(line, entry))
}

/// Reads the journal of a run.
struct JournalReader<'a> {
    file: std::sync::Arc<str>,
    plan: Plan,
    /// The last time that the journal has: not all entries have one.
    now: Timestamp,
    ids: &'a mut KnownIds,
    steps: &'a mut Vec<LetterStep>,
}

impl JournalReader<'_> {
    fn read(&mut self, line: u64, entry: Entry) {
        match entry {
            Entry::Sent { at, letters } => {
                self.now = at;
                for letter in letters {
                    let ids = [&letter.id].into_iter();
                    let ids = ids.chain(&letter.new).chain(&letter.original);
                    if self.ids.link(ids.map(String::as_str)) {
                        let (run, sent_as) = (self.run(), letter.new);
                        self.step(line, letter.id, LetterEvent::Redriven { run, sent_as });
                    }
                }
            }
            Entry::Refused { letters } => {
                for (id, reason) in letters {
                    if self.ids.contains(&id) {
                        let run = self.run();
                        self.step(line, id, LetterEvent::RedriveRefused { run, reason });
                    }
                }
            }
            Entry::CameBack { at, letters } => {
                self.now = at;
                for (new_letter_id, moved) in letters {
                    let ids = [moved.as_str(), &new_letter_id].into_iter();
                    if self.ids.link(ids) {
                        let run = self.run();
                        self.step(line, moved, LetterEvent::CameBack { run, new_letter_id });
                    }
                }
            }
            Entry::Started { at, .. } | Entry::Surveyed { at, .. } | Entry::Watched { at, .. } => {
                self.now = at;
            }
            Entry::Sending { .. }
            | Entry::NotSent { .. }
            | Entry::Deleted { .. }
            | Entry::Uncertain { .. }
            | Entry::Edited { .. }
            | Entry::Native { .. }
            | Entry::Ended(_) => {}
        }
    }

    fn step(&mut self, line: u64, letter_id: String, event: LetterEvent) {
        self.steps.push(LetterStep {
            at: LineRef {
                file: self.file.clone(),
                line,
            },
            time: self.now,
            letter_id,
            event,
        });
    }

    fn run(&self) -> Run {
        Run {
            run: self.plan.run.clone(),
            who: self.plan.who.clone(),
            why: self.plan.why.clone(),
        }
    }
}
