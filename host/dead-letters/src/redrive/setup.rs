//! What a run is given, and what has become of it.

use std::sync::Arc;
use std::time::Duration;

use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, Description, Queue};
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use super::activity::Activity;
use super::journal::{Entry, Journal, Outcome};
use super::ledger::{Counts, Ledger};
use super::pace::Pace;
use super::plan::Plan;
use super::store::RunFolder;
use super::target::{Router, Routes};
use super::work::{Editor, Parts, Set, Work};
use crate::filter::Filters;

/// What a run needs.
#[derive(Debug)]
pub struct Setup {
    /// The dead-letter queue.
    pub queue: Arc<dyn Queue>,
    /// Opens further queues.
    pub connections: Arc<Connections>,
    /// The run's folder.
    pub folder: RunFolder,
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
    /// Shows what it does.
    pub activity: Arc<Activity>,
    /// Stops it: batches under way are finished, and all letters that it holds are made visible.
    pub stop: CancellationToken,
}

/// What a run has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How it has ended.
    pub outcome: Outcome,
    /// Why, if it did not move everything.
    pub text: Option<String>,
    /// The counts.
    pub counts: Counts,
    /// Letters of the set that could not be received: others have deleted or moved them, or hold them. `None` if nobody knows how many there are.
    pub missing: Option<u64>,
    /// Whether a part of the queue was not read when the set was fixed: there may be more letters to move.
    pub is_partial: bool,
    /// Letters that arrived after the start, as far as they were seen.
    pub later: u64,
    /// The numbers of the journal's lines, from 1, that can't be read: letters of which such a line says that they were sent may be sent twice.
    pub damaged: Vec<u64>,
}

impl Setup {
    /// What the steps share.
    pub(super) fn work(
        &self,
        plan: Plan,
        description: Description,
        set: Set,
        journal: Journal,
        ledger: Ledger,
    ) -> Work {
        let parts = Parts {
            router: Router::new(
                Arc::clone(&self.connections),
                description.arn.clone(),
                Routes::new(&plan),
            ),
            queue: Arc::clone(&self.queue),
            pace: Pace::new(self.interval),
            editor: self.editor.clone(),
            keys: self.keys.clone(),
            activity: Arc::clone(&self.activity),
            stop: self.stop.clone(),
            plan,
            description,
            set,
        };
        Work::new(parts, journal, ledger)
    }

    /// Notes how the run has ended.
    pub(super) async fn finish(
        &self,
        journal: &Journal,
        summary: Summary,
    ) -> Result<Summary, RedriveError> {
        let ended = Entry::Ended {
            at: self.queue.now(),
            outcome: summary.outcome,
            text: summary.text.clone(),
            missing: summary.missing,
            later: summary.later,
        };
        journal.add(&[ended]).await?;
        Ok(summary)
    }
}

impl Summary {
    /// Of a run that ends before its first step.
    pub(super) fn before_steps(ledger: &Ledger, outcome: Outcome, text: Option<String>) -> Self {
        Self {
            outcome,
            text,
            counts: ledger.counts(),
            missing: None,
            is_partial: false,
            later: 0,
            damaged: ledger.damaged().to_vec(),
        }
    }
}
