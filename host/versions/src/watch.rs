//! Checks policies for new versions: when something in a watched folder changes, and at each refresh time.

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

/// The thread for a policy can't be started.
#[derive(Debug, thiserror::Error)]
#[error("can't start to check a policy for updates")]
pub struct WatchError(#[from] std::io::Error);

/// Checks for updates until dropped.
#[derive(Debug)]
pub struct Watcher {
    watched: Vec<Arc<Changes>>,
}

/// Called with the outcome of update checks.
type Report = dyn Fn(&LivePolicy, Reload) + Send + Sync;

impl Watcher {
    /// Checks each of these policies for updates on its own thread, so that a policy that is slow to fetch or to compile does not delay others. Pinned policies never change and are not checked.
    ///
    /// `report` is called on those threads for every outcome except [`Reload::Unchanged`].
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
                    let pending = Arc::clone(&changes);
                    let folders = Folders::new(move |is_own| pending.add(is_own));
                    check_repeatedly(&policy, folders, &changes, &*report);
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

/// Checks for updates until the policy is settled or the watcher is dropped. Files are checked immediately, because they may have changed after they were loaded and before they were watched.
fn check_repeatedly(policy: &LivePolicy, mut folders: Folders, changes: &Changes, report: &Report) {
    let catalog = policy.catalog();
    let interval = |folders: &Folders| {
        if folders.are_unreliable() {
            catalog.poll.unwrap_or(POLL)
        } else {
            catalog.refresh
        }
    };
    let mut schedule = Schedule::new(interval(&folders));
    let mut is_due = policy.spec().has_files() || policy.is_unsettled();
    while !changes.have_ended() && !policy.is_settled() {
        let checked = catch_unwind(AssertUnwindSafe(|| {
            // Before the check, so that changes after it are noticed.
            folders.follow(policy.spec(), catalog.poll.is_some());
            schedule.every(interval(&folders));
            if std::mem::replace(&mut is_due, true) {
                check(policy, interval(&folders), changes, report);
            }
        }));
        if let Err(panic) = &checked {
            tracing::error!(
                policy = policy.spec().title(),
                "an update check of a policy failed and is retried: {}",
                panic_message(&**panic)
            );
        }
        let is_unsettled = checked.is_err() || policy.is_unsettled();
        let wait = schedule.next(is_unsettled, rand::rng().random());
        changes.wait(wait);
    }
}

/// Checks once and reports the outcome. A version that takes long to compile is abandoned when the source has another one: the source is checked again on each change, and every `poll`.
fn check(policy: &LivePolicy, poll: Duration, changes: &Changes, report: &Report) {
    let last_check = Cell::new(clock::instant());
    let news = || {
        if changes.have_ended() {
            return News::ShuttingDown;
        }
        if changes.take() || last_check.get().elapsed() >= poll {
            last_check.set(clock::instant());
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
