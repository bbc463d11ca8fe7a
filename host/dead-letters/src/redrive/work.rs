//! What all steps of a run share: its queue, its set, its journal, and what is known of each letter.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_queue::{Description, VisibilityTimeout};
use tokio::time::Instant;

use super::RedriveError;
use super::entry::Entry;
use super::journal::Journal;
use super::ledger::{Ledger, State};
use super::others::{Next, Others};
use super::pace::Pace;
use super::plan::Plan;
use super::setup::Setup;
use super::target::Router;
use crate::archive::{ArchiveFile, ArchivedLetter};
use crate::filter::Filters;
use crate::letter::Letter;

/// How far the clocks of this machine and of SQS may be apart, in milliseconds: AWS refuses requests that are signed more than 15 minutes before or after.
const CLOCK_DIFFERENCE: u64 = 15 * 60 * 1_000;

/// The set of a run.
#[derive(Debug)]
pub(super) enum Set {
    /// The letters with these ids. The others were there, too, and are not chosen.
    Letters {
        members: HashSet<String>,
        others: HashSet<String>,
    },
    /// The letters with these ids, whatever else is there.
    Given(HashSet<String>),
    /// The letters that were in a FIFO queue at this time. Only the first ones of each group can be seen before these are deleted.
    Before {
        at: Timestamp,
        filters: Box<Filters>,
    },
}

/// How exact the times of SQS are, as far as this machine learns them from the `Date` of its answers.
const EXACT_TO: Duration = Duration::from_secs(1);

impl Set {
    /// What was in a FIFO queue when the run started, by the time of SQS.
    pub(super) fn before(plan: &Plan, filters: &Filters) -> Self {
        Self::Before {
            at: plan.started.plus(EXACT_TO),
            filters: Box::new(filters.clone()),
        }
    }
}

/// What to do with a letter that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Class {
    /// It belongs to the set.
    Move,
    /// It was being sent when the run was killed.
    Repeat,
    /// It was sent already.
    Delete,
    /// It is not chosen, or was refused.
    Leave,
    /// It arrived after the start.
    Later,
    /// It has failed again: the id of the letter that was moved.
    CameBack(String),
}

impl Class {
    /// Whether the letter was in the queue at the start.
    pub(super) fn was_there(&self) -> bool {
        match self {
            Self::Move | Self::Repeat | Self::Delete | Self::Leave => true,
            Self::Later | Self::CameBack(_) => false,
        }
    }
}

/// What all steps of a run share.
pub(super) struct Work {
    pub(super) setup: Setup,
    pub(super) plan: Plan,
    pub(super) description: Description,
    pub(super) router: Router,
    pub(super) pace: Pace,
    set: Set,
    pub(super) others: Others,
    journal: Journal,
    /// Where letters are written before they are sent.
    copies: Option<Arc<Mutex<ArchiveFile>>>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    ledger: Ledger,
    later: HashSet<String>,
}

impl Work {
    pub(super) fn new(
        setup: Setup,
        plan: Plan,
        description: Description,
        set: Set,
        journal: Journal,
        ledger: Ledger,
    ) -> Self {
        Self {
            router: Router::new(Arc::clone(&setup.connections), description.arn.clone()),
            pace: Pace::new(setup.interval),
            setup,
            plan,
            description,
            set,
            others: Others::default(),
            journal,
            copies: None,
            known: Mutex::new(Known {
                ledger,
                later: HashSet::new(),
            }),
        }
    }

    /// Writes letters to this file before they are sent.
    pub(super) fn keeping(self, copies: Option<ArchiveFile>) -> Self {
        Self {
            copies: copies.map(|file| Arc::new(Mutex::new(file))),
            ..self
        }
    }

    /// Keeps copies of letters that are about to be sent, if the plan says so. They are on the disk when this returns.
    pub(super) async fn keep<'a>(
        &self,
        letters: impl Iterator<Item = &'a Letter>,
    ) -> Result<(), RedriveError> {
        let Some(copies) = self.copies.clone() else {
            return Ok(());
        };
        let (queue, now) = (&self.description.arn, self.setup.queue.now());
        let line = |letter: &Letter| ArchivedLetter::of(&letter.message, queue, now).line();
        let lines: Vec<_> = letters.map(line).collect();
        let store = move || lock(&copies).store(&lines);
        let stored = self.setup.folder.work().run(store).await;
        let panicked = || std::io::Error::other("the thread that writes copies has panicked");
        Ok(stored.ok_or_else(panicked)??)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// How long received letters stay invisible.
    pub(super) fn visibility(&self) -> VisibilityTimeout {
        VisibilityTimeout::from_seconds(self.plan.visibility)
    }

    /// Reads something from the ledger.
    pub(super) fn ledger<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&self.known().ledger)
    }

    /// How many letters arrived after the start, as far as they were seen.
    pub(super) fn later(&self) -> u64 {
        u64::try_from(self.known().later.len()).unwrap_or(u64::MAX)
    }

    /// Writes entries to the journal and adds them to the ledger. They are on the disk when this returns.
    pub(super) async fn record(&self, entries: &[Entry]) -> Result<(), RedriveError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.journal.add(entries).await?;
        let counts = {
            let mut known = self.known();
            entries.iter().for_each(|entry| known.ledger.add(entry));
            known.ledger.counts()
        };
        self.setup
            .activity
            .change(|snapshot| snapshot.counts = counts);
        Ok(())
    }

    /// Notes that what was sent and can't be received any more is gone: its deletion had succeeded.
    pub(super) async fn note_gone(&self) -> Result<(), RedriveError> {
        let ids = self.ledger(Ledger::not_deleted);
        if ids.is_empty() {
            return Ok(());
        }
        self.record(&[Entry::Deleted { ids }]).await
    }

    /// How many letters of the set are neither moved nor refused; `None` if nobody knows.
    pub(super) fn left(&self) -> Option<u64> {
        match &self.set {
            Set::Letters { members, .. } | Set::Given(members) => {
                let members = u64::try_from(members.len()).unwrap_or(u64::MAX);
                Some(members.saturating_sub(self.known().ledger.settled()))
            }
            Set::Before { .. } => None,
        }
    }

    /// Whether letters are missing: of the set, or those that were sent and not deleted. Of a FIFO queue nobody knows the set.
    fn may_miss(&self) -> bool {
        self.left().is_some_and(|left| left > 0) || self.ledger(Ledger::unsettled) > 0
    }

    /// What a step does if nothing of the set comes.
    pub(super) fn next(&self, now: Instant) -> Next {
        self.others.next(self.plan.wait, self.may_miss(), now)
    }

    /// Decides about a letter that was received.
    pub(super) fn classify(&self, letter: &Letter) -> Class {
        let id = &letter.message.id;
        let mut known = self.known();
        match known.ledger.letters.get(id) {
            Some(State::Sent | State::Moved) => return Class::Delete,
            Some(State::Refused(_)) => return Class::Leave,
            Some(State::Sending) => return Class::Repeat,
            None => {}
        }
        let (is_member, was_there) = match &self.set {
            Set::Letters { members, others } => (members.contains(id), others.contains(id)),
            // The others that were there are those that are as old as the run, as far as SQS says.
            Set::Given(members) => (
                members.contains(id),
                letter.message.sent <= self.plan.started.plus(EXACT_TO),
            ),
            Set::Before { at, filters } => {
                let was_there = letter.message.sent <= *at;
                (was_there && filters.matches(letter), was_there)
            }
        };
        // Several letters may have died of one message.
        let moved = known.ledger.moved_before(letter);
        if let Some(moved) = moved.filter(|_| self.is_new(letter)) {
            return Class::CameBack(moved.to_owned());
        }
        if is_member {
            return Class::Move;
        }
        if was_there {
            return Class::Leave;
        }
        known.later.insert(id.clone());
        Class::Later
    }

    /// Whether a letter of another dead-letter queue, or of this one after a step, has failed again: the id of the letter that was moved.
    pub(super) fn failed_again(&self, letter: &Letter) -> Option<String> {
        let known = self.known();
        let is_known = known.ledger.letters.contains_key(&letter.message.id);
        if is_known || !self.is_new(letter) {
            return None;
        }
        known.ledger.moved_before(letter).map(str::to_owned)
    }

    /// The new ones of these letters that came back.
    pub(super) fn unknown(&self, came_back: Vec<(String, String)>) -> Vec<(String, String)> {
        let known = self.known();
        let is_new = |(new, _): &(String, String)| !known.ledger.came_back.contains_key(new);
        came_back.into_iter().filter(is_new).collect()
    }

    /// Whether a letter can have come back: it is not listed, and not older than the run, as far as clocks tell. The letters of a FIFO queue are not listed.
    fn is_new(&self, letter: &Letter) -> bool {
        let id = &letter.message.id;
        let is_listed = match &self.set {
            Set::Letters { members, others } => members.contains(id) || others.contains(id),
            Set::Given(members) => members.contains(id),
            Set::Before { .. } => false,
        };
        let sent = letter.message.sent.0.saturating_add(CLOCK_DIFFERENCE);
        !is_listed && sent >= self.plan.started.0
    }
}
