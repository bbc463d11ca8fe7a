//! New versions of a policy in a function: looked for beside the work on a batch, since nothing runs between two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::failure::Timestamp;
use crate::policy::{LivePolicy, Reload, Schedule};
use crate::service::{Role, tell};

/// The longest that a batch which is done waits for a look to end. What takes longer goes on in the next invocation.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What an answer needs to reach Lambda in time.
const MARGIN: Duration = Duration::from_secs(1);

/// Has a policy look for a new version when an invocation begins, no more often than the refresh time; sooner, with a backoff, while its source is away.
#[derive(Debug)]
pub struct Refresh {
    policy: Arc<LivePolicy>,
    /// What it is called in the log.
    what: Role,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    /// By the time of day: it goes on while the function is frozen.
    due: Timestamp,
    looking: Option<JoinHandle<Reload>>,
}

impl Refresh {
    /// A policy that was loaded just now.
    pub fn of_policy(policy: Arc<LivePolicy>) -> Self {
        Self::new(policy, Role::Live, RELOAD_TIMEOUT)
    }

    /// The same for a shadow, which no batch waits for.
    pub fn of_shadow(policy: Arc<LivePolicy>) -> Self {
        Self::new(policy, Role::Shadow, Duration::ZERO)
    }

    fn new(policy: Arc<LivePolicy>, what: Role, patience: Duration) -> Self {
        let mut schedule = Schedule::new(policy.catalog().refresh);
        let wait = schedule.next(policy.is_unsettled(), rand::random());
        let due = clock::now().plus(wait);
        Self {
            policy,
            what,
            patience,
            state: Mutex::new(State {
                schedule,
                due,
                looking: None,
            }),
        }
    }

    /// Looks, if it is time to. Returns at once: the work on the batch goes on meanwhile, with the version that there is.
    pub fn begin(&self) {
        let mut state = self.state();
        // The package of a function does not change.
        let is_wanted = self.policy.spec().is_remote() && !self.policy.is_settled();
        if is_wanted && state.looking.is_none() && clock::now() >= state.due {
            let policy = Arc::clone(&self.policy);
            state.looking = Some(tokio::task::spawn_blocking(move || policy.reload()));
        }
    }

    /// Waits for a look under way, for a while and never past what is left until `deadline`.
    pub async fn end(&self, deadline: Instant) {
        let Some(mut looking) = self.state().looking.take() else {
            return;
        };
        let until =
            (Instant::now() + self.patience).min(deadline.checked_sub(MARGIN).unwrap_or(deadline));
        let Ok(ended) = timeout_at(until, &mut looking).await else {
            self.state().looking = Some(looking);
            return;
        };
        match ended {
            Ok(Reload::Unchanged) => {}
            Ok(reload) => tell(self.what, &self.policy, reload),
            Err(error) => {
                tracing::error!(%error, "looking for a new version of the {} failed", self.what);
            }
        }
        let unsettled = self.policy.is_unsettled();
        let mut state = self.state();
        let wait = state.schedule.next(unsettled, rand::random());
        state.due = clock::now().plus(wait);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
