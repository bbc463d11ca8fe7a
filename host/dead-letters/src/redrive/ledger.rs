//! The sum of a journal: the state of every letter that a run has touched.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use backstop_core::failure::Timestamp;
use serde::{Deserialize, Serialize};

use super::entry::{Ended, Entry, Outcome};
use super::journal;
use crate::letter::Letter;

/// What has happened to a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It was sent, or not: nobody knows.
    Sending,
    /// Its target has it, and the dead-letter queue, too.
    Sent,
    /// It has left the dead-letter queue.
    Moved,
    /// Its target does not accept it.
    Refused(String),
}

/// The sum of a run's journal.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub(super) letters: HashMap<String, State>,
    /// Letters that may have arrived twice.
    pub(super) uncertain: HashSet<String>,
    /// Letters by the ids under which they may come back.
    known_as: HashMap<String, String>,
    /// Letters that came back, by their new id, with the id of the letter that was moved.
    pub(super) came_back: BTreeMap<String, String>,
    /// The steps after which letters that came back were looked for.
    pub(super) watched: HashSet<usize>,
    /// How many letters were taken and how many had failed when letters that came back were looked for last.
    pub(super) last_watch: (u64, u64),
    /// How many letters are in each state.
    sending: u64,
    sent: u64,
    refused: u64,
    /// The letters of the run that have failed again.
    failed: HashSet<String>,
    moved: u64,
    edited: u64,
    /// The letters in the set, if it is fixed and counted.
    pub(super) members: Option<u64>,
    /// Whether a part of the queue was not read when the set was fixed.
    is_partial: bool,
    starts: u64,
    last: Option<Timestamp>,
    ended: Option<Ended>,
    /// The lines of the journal that can't be read.
    damaged: Vec<u64>,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// The letters in the set; `None` if nobody knows, as in a FIFO queue.
    pub letters: Option<u64>,
    /// Those that their targets have accepted.
    pub moved: u64,
    /// Those of them that are still in the dead-letter queue, too: a resumed run deletes them.
    pub not_deleted: u64,
    /// Those that stay in the dead-letter queue, because their targets do not accept them.
    pub refused: u64,
    /// Those that may have arrived twice.
    pub uncertain: u64,
    /// Those that were being sent when the run was killed.
    pub in_doubt: u64,
    /// Those whose bodies were changed.
    pub edited: u64,
    /// Those that have failed again.
    pub failed_again: u64,
}

impl Ledger {
    /// Reads a journal.
    pub(super) fn read(path: &Path) -> std::io::Result<Self> {
        let mut ledger = Self::default();
        ledger.damaged = journal::read(path, |entry| ledger.add(&entry))?;
        Ok(ledger)
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Started { at, .. } => {
                self.starts += 1;
                self.last = Some(*at);
                self.ended = None;
            }
            Entry::Surveyed {
                at,
                members,
                is_complete,
                ..
            } => {
                self.members = *members;
                self.is_partial = !*is_complete;
                self.last = Some(*at);
            }
            Entry::Sending { ids } => {
                for id in ids {
                    self.set(id, Some(State::Sending));
                }
            }
            Entry::NotSent { ids } => {
                for id in ids {
                    self.set(id, None);
                }
            }
            Entry::Sent { at, letters } => {
                self.last = Some(*at);
                for letter in letters {
                    self.set(&letter.id, Some(State::Sent));
                    self.moved += 1;
                    for known in [&letter.new, &letter.original].into_iter().flatten() {
                        self.known_as.insert(known.clone(), letter.id.clone());
                    }
                }
            }
            Entry::Deleted { ids } => {
                for id in ids {
                    self.set(id, Some(State::Moved));
                }
            }
            Entry::Refused { letters } => {
                for (id, why) in letters {
                    self.set(id, Some(State::Refused(why.clone())));
                }
            }
            Entry::Uncertain { ids } => self.uncertain.extend(ids.iter().cloned()),
            Entry::Edited { .. } => self.edited += 1,
            Entry::CameBack { letters, .. } => {
                self.failed.extend(letters.iter().map(|(_, id)| id.clone()));
                self.came_back.extend(letters.iter().cloned());
            }
            Entry::Watched {
                at, step, is_early, ..
            } => {
                self.last = Some(*at);
                if !is_early {
                    self.watched.insert(*step);
                }
                self.last_watch = (self.taken(), self.failed_again() + self.refusals());
            }
            Entry::Native { moved } => self.moved = *moved,
            Entry::Ended(ended) => {
                self.last = Some(ended.at);
                self.ended = Some(ended.clone());
            }
        }
    }

    fn set(&mut self, id: &str, state: Option<State>) {
        if let Some(count) = state.as_ref().and_then(|state| self.count(state)) {
            *count += 1;
        }
        let before = match state {
            Some(state) => self.letters.insert(id.to_owned(), state),
            None => self.letters.remove(id),
        };
        if let Some(count) = before.and_then(|state| self.count(&state)) {
            *count -= 1;
        }
    }

    fn count(&mut self, state: &State) -> Option<&mut u64> {
        match state {
            State::Sending => Some(&mut self.sending),
            State::Sent => Some(&mut self.sent),
            State::Refused(_) => Some(&mut self.refused),
            State::Moved => None,
        }
    }

    /// How many letters were sent or tried to be sent.
    pub(super) fn taken(&self) -> u64 {
        number(self.letters.len())
    }

    /// How many letters were sent, or were being sent, and are not deleted.
    pub(super) fn unsettled(&self) -> u64 {
        self.sending + self.sent
    }

    /// How many letters have left the dead-letter queue or were refused.
    pub(super) fn settled(&self) -> u64 {
        self.taken() - self.unsettled()
    }

    /// How many letters were refused.
    pub(super) fn refusals(&self) -> u64 {
        self.refused
    }

    /// How many letters have failed again.
    pub(super) fn failed_again(&self) -> u64 {
        number(self.failed.len())
    }

    /// Lets refused letters be tried again.
    pub(super) fn forget_refused(&mut self) {
        for (id, _) in self.refused() {
            self.set(&id, None);
        }
    }

    /// The letters that are sent and not deleted.
    pub(super) fn not_deleted(&self) -> Vec<String> {
        let letters = self.letters.iter();
        let sent = letters.filter(|(_, state)| **state == State::Sent);
        sent.map(|(id, _)| id.clone()).collect()
    }

    /// Letters that were being sent when an earlier run was killed.
    pub(super) fn in_doubt(&self) -> Vec<String> {
        let letters = self.letters.iter();
        let sending = letters.filter(|(_, state)| **state == State::Sending);
        let mut ids: Vec<_> = sending.map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids
    }

    /// The ids of the letters that may have arrived twice.
    pub fn uncertain(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.uncertain.iter().cloned().collect();
        if self.ended.is_none() {
            ids.extend(self.in_doubt());
        }
        ids.sort();
        ids.dedup();
        ids
    }

    /// The letters that were refused, each with the reason.
    pub fn refused(&self) -> Vec<(String, String)> {
        let letters = self.letters.iter();
        let mut refused: Vec<_> = letters
            .filter_map(|(id, state)| match state {
                State::Refused(why) => Some((id.clone(), why.clone())),
                State::Sending | State::Sent | State::Moved => None,
            })
            .collect();
        refused.sort();
        refused
    }

    /// The letters that failed again: the id of the new letter, and of the one that was moved.
    pub fn came_back(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.came_back.iter();
        pairs.map(|(new, old)| (new.as_str(), old.as_str()))
    }

    /// The letters in the queue that the run has sent, or was sending when it was killed. A run that is done has looked for those in doubt; those that it could not delete are still there.
    pub fn letters_left(&self) -> u64 {
        let is_done = self.ended().is_some_and(|it| it.outcome == Outcome::Done);
        let counts = self.counts();
        let in_doubt = if is_done { 0 } else { counts.in_doubt };
        counts.not_deleted + in_doubt
    }

    /// The counts.
    pub fn counts(&self) -> Counts {
        Counts {
            letters: self.members,
            moved: self.moved,
            not_deleted: self.sent,
            refused: self.refused,
            uncertain: number(self.uncertain.len()),
            in_doubt: self.sending,
            edited: self.edited,
            failed_again: self.failed_again(),
        }
    }

    /// Which letter of the run this one is, if it has failed again: the id of the letter that was moved.
    pub(super) fn moved_before(&self, letter: &Letter) -> Option<&str> {
        let of = |id: &str| self.known_as.get(id).map(String::as_str);
        let found = of(&letter.message.id).or_else(|| of(&letter.original_id));
        // A copy of the moved letter itself is none that came back.
        found.filter(|moved| *moved != letter.message.id)
    }

    /// How the run has ended last; `None` if it runs or was killed.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Whether a part of the queue was not read when the set was fixed, so that there may be more letters to move.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The numbers of the journal's lines, from 1, that can't be read. No letter is lost by them, since a letter is deleted only if a line says that it was sent. But one that such a line calls sent may be sent again.
    pub fn damaged(&self) -> &[u64] {
        &self.damaged
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// When something was written last.
    pub fn last(&self) -> Option<Timestamp> {
        self.last
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redrive::entry::SentLetter;

    #[test]
    fn a_killed_run_has_letters_in_doubt_and_letters_to_delete() {
        let ids = |ids: &[&str]| ids.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let sent = |id: &str| SentLetter {
            id: id.to_owned(),
            new: Some(format!("new-{id}")),
            original: None,
        };
        let mut ledger = Ledger::default();
        for entry in [
            Entry::Sending {
                ids: ids(&["a", "b", "c", "d"]),
            },
            Entry::Sent {
                at: Timestamp(1),
                letters: vec![sent("a"), sent("b")],
            },
            Entry::Deleted { ids: ids(&["a"]) },
            Entry::Refused {
                letters: vec![("c".to_owned(), "too large".to_owned())],
            },
        ] {
            ledger.add(&entry);
        }
        assert_eq!(ledger.in_doubt(), ["d"]);
        assert_eq!(ledger.taken(), 4);
        let counts = ledger.counts();
        assert_eq!((counts.moved, counts.not_deleted), (2, 1));
        assert_eq!((counts.refused, counts.in_doubt), (1, 1));
        // Without the line that a letter was sent, it is in doubt, and never taken for moved.
        let mut damaged = Ledger::default();
        damaged.add(&Entry::Sending { ids: ids(&["a"]) });
        assert_eq!(
            (damaged.in_doubt(), damaged.not_deleted()),
            (ids(&["a"]), ids(&[]))
        );
        // Sent again by the resumed run.
        ledger.add(&Entry::Sending { ids: ids(&["d"]) });
        assert_eq!(ledger.taken(), 4);
    }
}
