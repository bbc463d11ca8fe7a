//! Looks for letters that came back: they died again after they were moved.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::RedriveError;
use super::activity::Phase;
use super::entry::Entry;
use super::fixed_set::{is_complete, read_options};
use super::ledger::{Counts, Ledger};
use super::setup::Setup;
use super::tags::holder;
use super::work::{Set, Work};
use crate::letter::Letter;
use crate::reader::read;

/// The most letters that are read: SQS allows 120,000 in flight.
const MOST: usize = 100_000;

/// What has failed up to now.
pub(super) struct Failures {
    taken: u64,
    failed: u64,
}

impl Failures {
    /// What had failed when letters that came back were looked for last. What is refused is tried again by a resumed run.
    pub(super) fn at_last_watch(work: &Work) -> Self {
        work.ledger(|ledger| Self {
            taken: ledger.last_watch.0.min(ledger.taken()),
            failed: ledger
                .last_watch
                .1
                .min(ledger.failed_again() + ledger.refusals()),
        })
    }

    pub(super) fn of(work: &Work) -> Self {
        work.ledger(|ledger| Self {
            taken: ledger.taken(),
            failed: ledger.failed_again() + ledger.refusals(),
        })
    }

    /// How many letters were taken since then, and how many of them failed.
    pub(super) fn since(&self, before: &Self) -> (u64, u64) {
        (
            self.taken.saturating_sub(before.taken),
            self.failed.saturating_sub(before.failed),
        )
    }
}

/// Waits for letters that come back. Returns whether it was not stopped.
pub(super) async fn wait(work: &Work, step: usize) -> bool {
    let until = Instant::now() + work.plan.watch;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let phase = Phase::Watching(step, left);
        work.setup.activity.change(|it| it.phase = phase);
        let pause = left.min(Duration::from_millis(500));
        let stop = &work.setup.stop;
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return false;
        }
    }
    true
}

/// Looks for letters that came back, in the dead-letter queue and in the others that are watched. Returns what has failed up to now, and whether all of the queues were read.
pub(super) async fn check_queues(work: &Work) -> Result<(Failures, bool), RedriveError> {
    let setup = &work.setup;
    setup.activity.change(|it| it.phase = Phase::Looking);
    let mut queues = vec![Arc::clone(&setup.queue)];
    for url in &work.plan.watched {
        queues.push(setup.connections.by_url(url).await);
    }
    let mut all_read = true;
    for queue in queues {
        let mut came_back = Vec::new();
        let mut options = read_options(&work.plan, &queue.describe().await?);
        // Those that came back may be the last ones.
        options.most = MOST;
        let find = async |letter: Letter| {
            if let Some(moved) = work.failed_again(&letter) {
                came_back.push((letter.message.id, moved));
            }
        };
        let seen = read(queue, options, &setup.stop, find).await?;
        all_read &= is_complete(&seen);
        let letters = work.unknown(came_back);
        if !letters.is_empty() {
            let at = setup.queue.now();
            work.record(&[Entry::CameBack { at, letters }]).await?;
        }
    }
    Ok((Failures::of(work), all_read))
}

/// Looks for letters of an ended run that came back since, and notes them.
pub async fn check(setup: Setup) -> Result<Counts, RedriveError> {
    let _lock = setup.folder.lock()?;
    if setup.folder.is_shared() {
        // Another machine may work on it, and what is noted here would stop it.
        let holder = holder(&*setup.queue).await?;
        let works = holder.filter(|it| it.until > setup.queue.now());
        if let Some(holder) = works {
            return Err(RedriveError::Locked { holder });
        }
    }
    setup.folder.refresh().await?;
    let plan = setup.folder.plan()?;
    let ledger = setup.folder.ledger()?;
    let journal = setup.folder.open_journal()?;
    let description = setup.queue.describe().await?;
    let set = match (setup.folder.letters()?, setup.filters.only_letters()) {
        (Some((members, others)), _) => Set::Letters { members, others },
        (None, Some(members)) if !description.fifo => Set::Given(members.clone()),
        (None, _) => Set::before(&plan, &setup.filters),
    };
    let work = Work::new(setup, plan, description, set, journal, ledger);
    check_queues(&work).await?;
    Ok(work.ledger(Ledger::counts))
}
