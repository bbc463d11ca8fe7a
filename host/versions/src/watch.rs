//! Has policies look for new versions: when something in a watched folder changes, and at each refresh time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rand::RngExt;

use backstop_core::clock;

use crate::catalog::POLL;
use crate::changes::Changes;
use crate::folders::Folders;
use crate::live::{LivePolicy, News, Reload, panic_message};
use crate::schedule::Schedule;

/// No thread is to be had for a policy.
#[derive(Debug, thiserror::Error)]
#[error("can't start looking for new versions of a policy")]
pub struct WatchError(#[from] std::io::Error);

/// Watches until dropped.
#[derive(Debug)]
pub struct Watcher {
    watched: Vec<Arc<Changes>>,
}

/// Told of everything that happened to a policy.
type Report = dyn Fn(&LivePolicy, Reload) + Send + Sync;

impl Watcher {
    /// Has each of these policies look for new versions, on a thread of its own, so that one that is slow to fetch or to compile holds up no other. A pinned one is left alone.
    ///
    /// `report` is told of everything that happened, on those threads.
    pub fn start(
        policies: Vec<Arc<LivePolicy>>,
        report: impl Fn(&LivePolicy, Reload) + Send + Sync + 'static,
    ) -> Result<Self, WatchError> {
        let report: Arc<Report> = Arc::new(report);
        let mut watcher = Self {
            watched: Vec::new(),
        };
        for policy in policies {
            if policy.is_settled() {
                continue;
            }
            let changes = Arc::<Changes>::default();
            let report = Arc::clone(&report);
            watcher.watched.push(Arc::clone(&changes));
            thread::Builder::new()
                .name("policy".to_owned())
                .spawn(move || {
                    let told = Arc::clone(&changes);
                    let folders = Folders::new(move |is_own| told.add(is_own));
                    look(&policy, folders, &changes, &*report);
                })?;
        }
        Ok(watcher)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        for changes in &self.watched {
            changes.end();
        }
    }
}

/// Looks whenever there is a reason to, until the policy is settled or the watcher has ended. At once for files, which may have changed since they were loaded and before they were watched.
fn look(policy: &LivePolicy, mut folders: Folders, changes: &Changes, report: &Report) {
    let catalog = policy.catalog();
    let polls = |folders: &Folders| match folders.are_silent() {
        true => catalog.poll.unwrap_or(POLL),
        false => catalog.refresh,
    };
    let mut schedule = Schedule::new(polls(&folders));
    let mut is_due = policy.spec().has_files() || policy.is_unsettled();
    while !changes.have_ended() && !policy.is_settled() {
        let looked = catch_unwind(AssertUnwindSafe(|| {
            // Before the look: what changes after it is told.
            folders.follow(policy.spec(), catalog.poll.is_some());
            schedule.every(polls(&folders));
            if std::mem::replace(&mut is_due, true) {
                look_once(policy, polls(&folders), changes, report);
            }
        }));
        if let Err(panic) = &looked {
            tracing::error!(
                policy = policy.spec().title(),
                "looking for a new version of a policy failed, and is tried again: {}",
                panic_message(&**panic)
            );
        }
        let is_unsettled = looked.is_err() || policy.is_unsettled();
        let wait = schedule.next(is_unsettled, rand::rng().random());
        changes.wait(wait);
    }
}

/// Looks, and tells what came of it. A version that takes long to compile is given up when the source has another: that is looked up when something changed, and every `poll`.
fn look_once(policy: &LivePolicy, poll: Duration, changes: &Changes, report: &Report) {
    let looked = Cell::new(clock::instant());
    let news = || {
        if changes.have_ended() {
            return News::ShuttingDown;
        }
        if changes.take() || looked.get().elapsed() >= poll {
            looked.set(clock::instant());
            return News::Changed;
        }
        News::None
    };
    match policy.reload_unless(&news) {
        Reload::Unchanged => {}
        reload @ (Reload::Swapped { .. }
        | Reload::Refused { .. }
        | Reload::SourceUnreachable { .. }
        | Reload::SourceRecovered { .. }) => report(policy, reload),
    }
}
