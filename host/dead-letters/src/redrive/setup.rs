//! What a run is given, and what has become of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, Queue};
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use super::activity::Activity;
use super::entry::{Ended, Entry, Outcome};
use super::journal::Journal;
use super::ledger::{Counts, Ledger};
use super::plan::Plan;
use super::run_folder::RunFolder;
use crate::filter::Filters;
use crate::letter::Letter;

/// What an editor has done with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// It is sent as it was.
    Unchanged,
    /// It is sent with this body.
    Changed(String),
    /// The letter stays in the dead-letter queue, for this reason.
    Skipped(String),
    /// The run stops.
    Stop,
}

/// Lets a person change the body of each letter before it is sent.
#[async_trait]
pub trait Editor: std::fmt::Debug + Send + Sync {
    /// Shows a letter, and the text that would be sent for it. The letter is held meanwhile.
    async fn edit(&self, letter: &Letter, text: &str) -> Result<Edited, RedriveError>;
}

/// What a run needs.
#[derive(Debug)]
pub struct Setup {
    /// The dead-letter queue.
    pub queue: Arc<dyn Queue>,
    /// Opens further queues.
    pub connections: Arc<Connections>,
    /// The run's folder.
    pub folder: RunFolder,
    /// The plan that was checked, if somebody has: a run that has another one by now is refused.
    pub checked: Option<Box<Plan>>,
    /// Which letters are chosen.
    pub filters: Filters,
    /// The time of one letter, if the rate is limited.
    pub interval: Option<Duration>,
    /// Edits each body.
    pub editor: Option<Arc<dyn Editor>>,
    /// Sign the envelopes of letters whose attempts go on.
    pub keys: Option<EnvelopeKeys>,
    /// Who works on the run now.
    pub who: String,
    /// A run that no longer counts, although the queue's tag is still its own.
    pub despite: Option<String>,
    /// Shows what it does.
    pub activity: Arc<Activity>,
    /// Stops it: batches under way are finished, and all letters that it holds are made visible.
    pub stop: CancellationToken,
}

/// What a run has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How it has ended.
    pub ended: Ended,
    /// The counts.
    pub counts: Counts,
    /// Whether a part of the queue was not read when the set was fixed: there may be more letters to move.
    pub is_partial: bool,
    /// The numbers of the journal's lines, from 1, that can't be read: letters of which such a line says that they were sent may be sent twice.
    pub damaged: Vec<u64>,
}

impl Summary {
    /// Of a run that has ended like this, with this ledger.
    pub(super) fn new(ended: Ended, ledger: &Ledger) -> Self {
        Self {
            ended,
            counts: ledger.counts(),
            is_partial: ledger.is_partial(),
            damaged: ledger.damaged().to_vec(),
        }
    }

    /// Notes how the run has ended.
    pub(super) async fn note(self, journal: &Journal) -> Result<Self, RedriveError> {
        let ended = Entry::Ended(self.ended.clone());
        journal.add(&[ended]).await?;
        Ok(self)
    }
}

impl Ended {
    /// The end of a run before its first step.
    pub(super) fn before_steps(at: Timestamp, outcome: Outcome, text: Option<String>) -> Self {
        Self {
            at,
            outcome,
            text,
            missing: None,
            later: 0,
        }
    }
}
