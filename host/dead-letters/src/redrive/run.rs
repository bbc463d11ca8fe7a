//! A run from its start to its end: the set is fixed, then each step moves letters and looks for those that came back.

use std::sync::Arc;
use std::time::Duration;

use backstop::CancellationToken;
use backstop::internal::hold::EnvelopeKeys;
use backstop_queue::{Connections, Queue};

use super::RedriveError;
use super::fixed_set::fix_set;
use super::hold::longest_hidden;
use super::journal::{Entry, Journal, Outcome};
use super::ledger::{Counts, Ledger};
use super::pace::Pace;
use super::plan::Plan;
use super::progress::Progress;
use super::steps::{StepsEnd, steps};
use super::store::RunFolder;
use super::target::{Router, Routes};
use super::work::{Editor, Parts, Work};
use crate::filter::Filters;

/// A queue whose redrive policy has a smaller maximum could lose letters to it by being read.
const SAFE_RECEIVES: u32 = 100;

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
    pub progress: Arc<Progress>,
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

/// Starts a run, or goes on with one that was interrupted or killed.
pub async fn run(setup: Setup) -> Result<Summary, RedriveError> {
    let _lock = setup.folder.lock()?;
    let plan = setup.folder.plan()?;
    let mut ledger = setup.folder.ledger()?;
    let journal = Journal::open(&setup.folder.journal())?;
    let is_resumed = ledger.starts() > 0;
    // A refused letter is tried again: the reason may be gone.
    ledger.forget_refused();
    let description = setup.queue.describe().await?;
    if let Some(redrive) = &description.redrive
        && redrive.max_receive_count.get() < SAFE_RECEIVES
    {
        return Err(RedriveError::OwnRedrive {
            queue: description.arn.clone(),
            receives: redrive.max_receive_count.get(),
        });
    }
    let mut first = vec![Entry::Started {
        at: setup.queue.now(),
        who: setup.who.clone(),
    }];
    let doubtful = ledger.in_doubt();
    if !doubtful.is_empty() {
        first.push(Entry::Uncertain { ids: doubtful });
    }
    journal.add(&first).await?;
    first.iter().for_each(|entry| ledger.add(entry));
    let set = fix_set(
        &setup,
        &plan,
        &description,
        &journal,
        &mut ledger,
        is_resumed,
    )
    .await?;
    let Some(set) = set else {
        return finish(&journal, &setup, interrupted(&ledger)).await;
    };
    let routes = routes(&plan);
    let parts = Parts {
        router: Router::new(
            Arc::clone(&setup.connections),
            description.arn.clone(),
            routes,
        ),
        queue: Arc::clone(&setup.queue),
        pace: Pace::new(setup.interval),
        editor: setup.editor.clone(),
        keys: setup.keys.clone(),
        progress: Arc::clone(&setup.progress),
        stop: setup.stop.clone(),
        plan,
        description,
        set,
    };
    setup.progress.change(|it| it.counts = ledger.counts());
    let work = Arc::new(Work::new(parts, journal.clone(), ledger));
    let patience = if is_resumed {
        longest_hidden(work.visibility())
    } else {
        Duration::ZERO
    };
    let ended = steps(&setup, &work, patience).await;
    let StepsEnd {
        outcome,
        text,
        is_exhausted,
        is_held,
    } = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let text = Some(backstop_core::text::chain(&error));
            let summary = summary(&work, Outcome::Failed, text, false);
            // The error of the steps says more than that of a journal on a full disk.
            let _ = finish(&journal, &setup, summary).await;
            return Err(error);
        }
    };
    if is_exhausted && !is_held {
        work.note_gone().await?;
    }
    let summary = summary(&work, outcome, text, is_exhausted);
    finish(&journal, &setup, summary).await
}

/// The targets of a plan.
pub(super) fn routes(plan: &Plan) -> Routes {
    Routes {
        to: plan.to.clone(),
        default_to: plan.default_to.clone(),
    }
}

pub(super) fn interrupted(ledger: &Ledger) -> Summary {
    Summary {
        outcome: Outcome::Interrupted,
        text: None,
        counts: ledger.counts(),
        missing: None,
        is_partial: false,
        later: 0,
        damaged: ledger.damaged().to_vec(),
    }
}

fn summary(work: &Work, outcome: Outcome, text: Option<String>, is_exhausted: bool) -> Summary {
    Summary {
        outcome,
        text,
        counts: work.ledger(Ledger::counts),
        missing: work.left().filter(|_| is_exhausted),
        is_partial: work.ledger(Ledger::is_partial),
        later: work.later(),
        damaged: work.ledger(|it| it.damaged().to_vec()),
    }
}

pub(super) async fn finish(
    journal: &Journal,
    setup: &Setup,
    summary: Summary,
) -> Result<Summary, RedriveError> {
    let ended = Entry::Ended {
        at: setup.queue.now(),
        outcome: summary.outcome,
        text: summary.text.clone(),
        missing: summary.missing,
        later: summary.later,
    };
    journal.add(&[ended]).await?;
    Ok(summary)
}
