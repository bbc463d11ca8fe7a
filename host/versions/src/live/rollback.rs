//! Roll-backs: automatic, when the active version fails on too many messages, and by the operator.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::thread;

use backstop_core::failure::{Error, Failure};
use backstop_core::text::chain;
use backstop_engine::{Evaluation, EvaluationError, Policy};
use serde::{Deserialize, Serialize};

use super::policy::LivePolicy;
use super::refusals::Applicable;
use super::version::{Restore, Restored, RollBackCost};
use crate::catalog::ROLLBACKS;
use crate::health::Break;
use crate::store::StoredFile;

/// A completed roll-back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The version that was active.
    pub from: String,
    /// The version that is active now.
    pub to: String,
}

/// Why a roll-back is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRolledBack {
    /// There is no previous version, or it no longer passes validation.
    #[error("there is no version before {now} to roll back to")]
    NoPreviousVersion {
        /// The active version.
        now: String,
    },
    /// Another version became active while the previous one was compiled.
    #[error("{now} became active in the meantime and stays active")]
    Replaced {
        /// The active version.
        now: String,
    },
}

impl LivePolicy {
    /// Records how this version decided about a failure. If it broke on too many messages within the time limit, the previous version is activated.
    pub fn record(
        self: &Arc<Self>,
        version: &Arc<Policy>,
        failure: &Failure,
        evaluation: &Evaluation,
    ) {
        let Err(broken) = &evaluation.answer else {
            let message = || hash(&failure.message_id);
            return self.state.record_answer(version, message);
        };
        if !self.state.counts(version) {
            return;
        }
        let how = how_it_broke(version, failure, broken, evaluation);
        let Some(reason) = self.state.record_break(version, &failure.message_id, how) else {
            return;
        };
        match self.state.roll_back_cost() {
            RollBackCost::Busy => return,
            RollBackCost::None => return self.roll_back_failing(version, &reason),
            RollBackCost::Compile => {}
        }
        // On its own thread: the message does not wait for the compiler.
        let (live, version) = (Arc::clone(self), Arc::clone(version));
        let started = thread::Builder::new()
            .name("roll-back".to_owned())
            .spawn(move || live.roll_back_failing(&version, &reason));
        if let Err(error) = started {
            tracing::error!(%error, "a failing version of the policy can't be rolled back");
        }
    }

    fn roll_back_failing(&self, version: &Arc<Policy>, reason: &str) {
        match self.roll_back_if(Some(version), reason) {
            Ok(RolledBack { from, to }) => tracing::error!(
                from,
                to,
                "a version of the policy was rolled back after {reason}: it is not tried again until its source changes"
            ),
            Err(NotRolledBack::Replaced { now }) => tracing::info!(
                from = version.title(),
                now,
                "a version of the policy is not rolled back after {reason}: another version is active already"
            ),
            Err(NotRolledBack::NoPreviousVersion { .. }) => {}
        }
    }

    /// Activates the previous version instead of the active one, which is not tried again until the source has another one. Blocks while the previous version is compiled; status reports and new versions do not wait for it.
    pub fn roll_back(&self, reason: &str) -> Result<RolledBack, NotRolledBack> {
        self.roll_back_if(None, reason)
    }

    /// If `only` is given, it must be the active version.
    fn roll_back_if(
        &self,
        only: Option<&Arc<Policy>>,
        reason: &str,
    ) -> Result<RolledBack, NotRolledBack> {
        // One at a time. A failing message does not wait for another roll-back, an operator does.
        let Some(_turn) = self.state.roll_back_turn(only.is_none()) else {
            return Err(self.no_previous_version());
        };
        let (active, files) = match self.state.roll_back(only, reason) {
            Restore::Done(restored) => return Ok(self.rolled_back(&restored)),
            Restore::NoPrevious => return Err(self.no_previous_version()),
            Restore::Load { active, files } => (active, files),
        };
        let loaded = self.load_stored(&files, &active);
        if !Arc::ptr_eq(&active, &self.current()) {
            return Err(self.replaced());
        }
        let Some(policy) = loaded else {
            // The next try comes after as many failures again, not with each message.
            self.state.reset_health();
            return Err(self.no_previous_version());
        };
        match self.state.restore(active, policy, files, reason) {
            Some(restored) => Ok(self.rolled_back(&restored)),
            None => Err(self.replaced()),
        }
    }

    /// Loads the policy of these files, unless a version other than `active` becomes active before it is compiled.
    fn load_stored(&self, files: &[StoredFile], active: &Arc<Policy>) -> Option<Policy> {
        let files = self.catalog.store.as_ref()?.files_of(files)?;
        let wanted = || Arc::ptr_eq(active, &self.current());
        let pipeline = self.pipeline();
        match pipeline.run(&files, Some(active), Applicable::Permanent, &wanted) {
            Ok(policy) => Some(policy),
            Err(cause) if cause.is_unwanted() => None,
            Err(cause) => {
                tracing::error!(
                    "the previous version no longer passes validation: {}",
                    chain(&cause)
                );
                None
            }
        }
    }

    fn rolled_back(&self, restored: &Restored) -> RolledBack {
        metrics::counter!(ROLLBACKS, "policy" => self.spec.title()).increment(1);
        RolledBack {
            from: restored.from.title(),
            to: restored.to.title(),
        }
    }

    fn no_previous_version(&self) -> NotRolledBack {
        NotRolledBack::NoPreviousVersion {
            now: self.current().title(),
        }
    }

    fn replaced(&self) -> NotRolledBack {
        NotRolledBack::Replaced {
            now: self.current().title(),
        }
    }
}

/// Whether the version breaks on this failure because of what the message contains: then it answers the same failure with an empty message and an error without text. Senders choose the former, and often the latter.
///
/// If it reads the empty message before it breaks on it, too, that proves nothing: a sender may have left out the same parts.
fn how_it_broke(
    version: &Policy,
    failure: &Failure,
    broken: &EvaluationError,
    evaluation: &Evaluation,
) -> Break {
    let error = &failure.error;
    let plain = Failure {
        attributes: Vec::new(),
        error: Error::new(error.code.clone(), "")
            .status(error.status)
            .retry_after(error.retry_after),
        ..failure.clone()
    };
    let is_of_time = |error: &EvaluationError| matches!(error, EvaluationError::OutOfTime(..));
    let plain = version.evaluate(&plain, &Arc::default());
    match plain.answer {
        Err(plainly) if !plain.payload_reads.has_any() => Break::Always {
            certain: !is_of_time(broken) && !is_of_time(&plainly),
        },
        Ok(_) | Err(_) => Break::OnContent {
            message: hash(&failure.message_id),
            content: content(failure, evaluation),
        },
    }
}

/// A hash of what the version saw of the message. The error's details are no part of it: with HTTP, these are the response's headers, which differ each time.
fn content(failure: &Failure, evaluation: &Evaluation) -> u64 {
    hash(&(
        &evaluation.payload_reads.parts,
        evaluation.payload_reads.bytes_read,
        &failure.attributes,
        &failure.error.message,
    ))
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
