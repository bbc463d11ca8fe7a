//! A run from its start to its end: the set is fixed, then each step moves letters and looks for those that came back.

use std::sync::Arc;
use std::time::Duration;

use super::RedriveError;
use super::entry::{Ended, Entry, Outcome};
use super::fixed_set::fix_set;
use super::hold::longest_hidden;
use super::plan::Plan;
use super::queue_lock::{QueueLock, Wanted};
use super::setup::{Setup, Summary};
use super::steps::{StepsEnd, steps};
use super::work::Work;

/// A queue whose redrive policy has a smaller maximum could lose letters to it by being read.
const SAFE_RECEIVES: u32 = 100;

/// Starts a run, or goes on with one that was interrupted or killed.
pub async fn run(setup: Setup) -> Result<Summary, RedriveError> {
    let _lock = setup.folder.lock()?;
    setup.folder.refresh().await?;
    let plan = setup.folder.plan()?;
    let folder = setup.folder.clone();
    let wanted = Wanted {
        queue: Arc::clone(&setup.queue),
        run: plan.run.clone(),
        who: setup.who.clone(),
        despite: setup.despite.clone(),
        is_shared: folder.is_shared(),
    };
    let lock = wanted.take(&setup.stop).await?;
    // Another machine may have worked on it until now.
    let refreshed = setup.folder.refresh().await;
    let plan = refreshed.and_then(|()| same_plan(&setup));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            lock.release(false).await;
            return Err(error);
        }
    };
    let summary = locked(setup, plan, &lock).await;
    let left = folder.ledger().map(|ledger| ledger.letters_left());
    lock.release(!matches!(left, Ok(0))).await;
    summary
}

/// The plan of the run, if it is the one that was checked.
fn same_plan(setup: &Setup) -> Result<Plan, RedriveError> {
    let plan = setup.folder.plan()?;
    match &setup.checked {
        Some(checked) if **checked != plan => Err(RedriveError::OtherPlan { run: plan.run }),
        Some(_) | None => Ok(plan),
    }
}

/// A run that has the lock of its queue.
async fn locked(setup: Setup, plan: Plan, lock: &QueueLock) -> Result<Summary, RedriveError> {
    let folder = setup.folder.clone();
    let mut ledger = folder.ledger()?;
    let journal = folder.open_journal()?;
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
        let at = setup.queue.now();
        let ended = Ended::before_steps(at, Outcome::Interrupted, lock.stopped());
        return Summary::new(ended, &ledger).note(&journal).await;
    };
    setup.activity.change(|it| it.counts = ledger.counts());
    let copies = folder.open_copies(&plan)?;
    let work = Work::new(setup, plan, description, set, journal.clone(), ledger);
    let work = Arc::new(work.keeping(copies));
    let grace = if is_resumed {
        longest_hidden(work.visibility())
    } else {
        Duration::ZERO
    };
    let ended = steps(&work, grace).await;
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
            let _ = summary.note(&journal).await;
            return Err(error);
        }
    };
    if is_exhausted && !is_held {
        work.note_gone().await?;
    }
    let text = match outcome {
        Outcome::Interrupted => text.or_else(|| lock.stopped()),
        Outcome::Done | Outcome::Stopped | Outcome::Failed => text,
    };
    let summary = summary(&work, outcome, text, is_exhausted);
    summary.note(&journal).await
}

fn summary(work: &Work, outcome: Outcome, text: Option<String>, is_exhausted: bool) -> Summary {
    let ended = Ended {
        at: work.setup.queue.now(),
        outcome,
        text,
        missing: work.left().filter(|_| is_exhausted),
        later: work.later(),
    };
    work.ledger(|ledger| Summary::new(ended, ledger))
}
