//! Checks for policy updates in a function. They run while a batch is handled, because nothing runs between two batches.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::failure::Timestamp;
use crate::policy::{LivePolicy, Purpose, Reload, Schedule, log_reload};

/// The longest that a finished batch waits for an update check. A longer check continues in the next invocation.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that the response needs to reach Lambda.
const MARGIN: Duration = Duration::from_secs(1);

/// Checks for updates of a policy when an invocation starts, at most once per refresh time. While the source is unreachable it checks more often, with a backoff.
#[derive(Debug)]
pub struct Refresh {
    policy: Arc<LivePolicy>,
    /// Its name in the log.
    purpose: Purpose,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    /// In the time of day, which advances while the function is frozen.
    due: Timestamp,
    reload: Option<JoinHandle<Reload>>,
}

impl Refresh {
    /// Checks for updates of a policy that has just been loaded.
    pub(super) fn of_policy(policy: Arc<LivePolicy>) -> Self {
        Self::new(policy, Purpose::Live, RELOAD_TIMEOUT)
    }

    /// The same for a shadow. No batch waits for its checks.
    pub(super) fn of_shadow(policy: Arc<LivePolicy>) -> Self {
        Self::new(policy, Purpose::Shadow, Duration::ZERO)
    }

    fn new(policy: Arc<LivePolicy>, purpose: Purpose, timeout: Duration) -> Self {
        let mut schedule = Schedule::new(policy.catalog().refresh);
        let wait = schedule.next(policy.is_unsettled(), rand::random());
        let due = clock::now().plus(wait);
        Self {
            policy,
            purpose,
            timeout,
            state: Mutex::new(State {
                schedule,
                due,
                reload: None,
            }),
        }
    }

    /// Starts a check if one is due. Returns at once; the batch is handled with the current version meanwhile.
    pub fn begin(&self) {
        let mut state = self.state();
        // The files in a function's package never change.
        let is_wanted = self.policy.spec().is_remote() && !self.policy.is_settled();
        if is_wanted && state.reload.is_none() && clock::now() >= state.due {
            let policy = Arc::clone(&self.policy);
            state.reload = Some(tokio::task::spawn_blocking(move || policy.reload()));
        }
    }

    /// Waits for a check under way, but not until `deadline`.
    pub async fn end(&self, deadline: Instant) {
        let Some(mut reload) = self.state().reload.take() else {
            return;
        };
        let until =
            (Instant::now() + self.timeout).min(deadline.checked_sub(MARGIN).unwrap_or(deadline));
        let Ok(ended) = timeout_at(until, &mut reload).await else {
            self.state().reload = Some(reload);
            return;
        };
        match ended {
            Ok(Reload::Unchanged) => {}
            Ok(reload) => log_reload(self.purpose, &self.policy, reload),
            Err(error) => {
                tracing::error!(%error, "an update check of the {} failed", self.purpose);
            }
        }
        let unsettled = self.policy.is_unsettled();
        let mut state = self.state();
        let wait = state.schedule.next(unsettled, rand::random());
        state.due = clock::now().plus(wait);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
