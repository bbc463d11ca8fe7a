//! The set of a run: which letters it may move, fixed once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_queue::{Description, VisibilityTimeout};
use tokio::time::{Instant, sleep};

use super::RedriveError;
use super::entry::{Ended, Entry, Outcome};
use super::hold::longest_hidden;
use super::journal::Journal;
use super::ledger::Ledger;
use super::plan::Plan;
use super::setup::Setup;
use super::survey::Survey;
use super::work::Set;
use crate::reader::{End, ReadOptions, Seen, read};

/// Letters that are read in one second at least while the set is fixed.
const LETTERS_A_SECOND: usize = 500;

/// The set of the run: fixed now, or read if it was fixed before. `None` if it was stopped.
pub(super) async fn fix_set(
    setup: &Setup,
    plan: &Plan,
    description: &Description,
    journal: &Journal,
    ledger: &mut Ledger,
    is_resumed: bool,
) -> Result<Option<Set>, RedriveError> {
    if description.fifo {
        return Ok(Some(Set::before(plan, &setup.filters)));
    }
    if let Some(members) = setup.filters.only_letters() {
        return given(setup, journal, ledger, members).await.map(Some);
    }
    if let Some((members, others)) = setup.folder.letters()? {
        return Ok(Some(Set::Letters { members, others }));
    }
    if is_resumed {
        wait_for_hidden(setup, plan, description).await?;
    }
    let activity = &setup.activity;
    let options = read_options(plan, description);
    let mut found = Survey::default();
    let add = async |letter| {
        activity.change(|it| it.read += 1);
        found.add(&letter, &setup.filters, plan);
    };
    let seen = read(Arc::clone(&setup.queue), options, &setup.stop, add).await?;
    if setup.stop.is_cancelled() || seen.end == End::Stopped {
        return Ok(None);
    }
    if let Some(error) = found.error() {
        let text = Some(error.to_string());
        let ended = Ended::before_steps(setup.queue.now(), Outcome::Failed, text);
        journal.add(&[Entry::Ended(ended)]).await?;
        return Err(error);
    }
    let folder = &setup.folder;
    folder.write_letters(&found.members, &found.others).await?;
    let count = |ids: usize| u64::try_from(ids).unwrap_or(u64::MAX);
    let surveyed = Entry::Surveyed {
        at: setup.queue.now(),
        members: Some(count(found.members.len())),
        others: count(found.others.len()),
        is_complete: is_complete(&seen),
    };
    journal.add(std::slice::from_ref(&surveyed)).await?;
    ledger.add(&surveyed);
    Ok(Some(Set::Letters {
        members: found.members,
        others: found.others,
    }))
}

/// The set of a run that was given the ids of its letters: nothing has to be read for it.
async fn given(
    setup: &Setup,
    journal: &Journal,
    ledger: &mut Ledger,
    members: &HashSet<String>,
) -> Result<Set, RedriveError> {
    if ledger.members.is_none() {
        let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
        let surveyed = Entry::Surveyed {
            at: setup.queue.now(),
            members: Some(count),
            others: 0,
            is_complete: true,
        };
        journal.add(std::slice::from_ref(&surveyed)).await?;
        ledger.add(&surveyed);
    }
    Ok(Set::Given(members.clone()))
}

/// How the queue is read.
pub(super) fn read_options(plan: &Plan, description: &Description) -> ReadOptions {
    let about = description.visible.unwrap_or(plan.most).min(plan.most);
    let needed = u32::try_from(about / LETTERS_A_SECOND).unwrap_or(u32::MAX);
    ReadOptions {
        most: plan.most,
        visibility: Some(VisibilityTimeout::from_seconds(needed.max(plan.visibility))),
    }
}

/// Waits until the letters are visible that a killed run held while it fixed its set.
async fn wait_for_hidden(
    setup: &Setup,
    plan: &Plan,
    description: &Description,
) -> Result<(), RedriveError> {
    let options = read_options(plan, description);
    let hidden = options.visibility.unwrap_or(VisibilityTimeout::ZERO);
    let until = Instant::now() + longest_hidden(hidden);
    while Instant::now() < until && !setup.stop.is_cancelled() {
        if setup.queue.describe().await?.in_flight == Some(0) {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Whether the whole queue was read.
pub(crate) fn is_complete(seen: &Seen) -> bool {
    let all = seen.about.is_some_and(|about| seen.letters >= about);
    match seen.end {
        End::Empty => !seen.lacks_letters_of_others(),
        End::Most => all,
        End::Later | End::Time | End::Stopped | End::Receives => false,
    }
}
