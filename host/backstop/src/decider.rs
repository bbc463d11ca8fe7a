//! From a failure to the decision that is applied: the live policy is asked, the fallback stands in where it is broken, the bounds are kept, and the whole is observed.

use std::sync::Arc;

use crate::clock;
use crate::decision::{Bounds, DecidedBy, Decision};
use crate::failure::{Failure, Milliseconds};
use crate::fallback;
use crate::policy::{Evaluation, EvaluationError, LivePolicy, Payload, Policy};
use crate::record::{DecisionRecord, Observer};
use crate::shadow::{Case, SETTLING, Shadow};
use crate::telemetry::Decisions;

/// What a policy may have read from a message, in bytes, for a break to be laid to its charge unseen.
const SMALL: usize = 4 << 10;

/// Decides for one queue.
#[derive(Clone)]
pub struct Decider {
    queue: String,
    policy: Arc<LivePolicy>,
    bounds: Bounds,
    observers: Vec<Arc<dyn Observer>>,
    shadow: Option<Arc<Shadow>>,
    metrics: Decisions,
}

/// A decision, and which version of the policy it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// What the host does.
    pub decision: Decision,
    /// The digests of the policy that was asked, with commas between them.
    pub policy: String,
}

impl std::fmt::Debug for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decider")
            .field("queue", &self.queue)
            .field("policy", &self.policy)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl Decider {
    /// Decides for the queue of this name with the version of the policy that is live at the time.
    pub fn new(queue: impl Into<String>, policy: Arc<LivePolicy>, bounds: Bounds) -> Self {
        let queue = queue.into();
        Self {
            metrics: Decisions::of(&queue),
            queue,
            policy,
            bounds,
            observers: Vec::new(),
            shadow: None,
        }
    }

    /// Tells this one too of every decision.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Puts every failure before this one too, once it is decided. Observers are told when the shadow has answered.
    #[must_use]
    pub fn shadowed_by(mut self, shadow: Option<Arc<Shadow>>) -> Self {
        self.shadow = shadow;
        self
    }

    /// What decides.
    pub(crate) fn policy(&self) -> &Arc<LivePolicy> {
        &self.policy
    }

    /// What is asked beside the live policy.
    pub fn shadow(&self) -> Option<&Arc<Shadow>> {
        self.shadow.as_ref()
    }

    /// Waits a moment for the shadow's last answers, and tells what is without one. For the end, before the records are closed.
    pub(crate) async fn settle(&self) {
        let Some(shadow) = self.shadow.clone() else {
            return;
        };
        let settling = tokio::task::spawn_blocking(move || shadow.settle(SETTLING));
        if let Err(error) = settling.await {
            tracing::error!(%error, "the last decisions may not be recorded");
        }
    }

    /// The same with the retention of the queue among its bounds, unless the operator's are given one.
    #[must_use]
    pub(crate) fn within_retention(mut self, retention: Milliseconds) -> Self {
        self.bounds.retention.get_or_insert(retention);
        self
    }

    /// The decision on a failure. `room` is the longest delay that the queue allows for the message now.
    ///
    /// Runs on a thread for blocking work, so that a policy which uses up its time holds up nothing but its own message.
    pub async fn decide(
        &self,
        failure: Failure,
        payload: Arc<Payload>,
        room: Milliseconds,
    ) -> Decided {
        let decider = self.clone();
        let given = failure.clone();
        let decided =
            tokio::task::spawn_blocking(move || decider.decide_now(&given, &payload, room)).await;
        decided.unwrap_or_else(|panic| {
            tracing::error!(%panic, "message-id" = failure.message_id, "deciding failed: the fallback decides");
            let by = DecidedBy::Fallback("the host failed while it asked the policy".to_owned());
            let decision = self.bounds.keep(&failure, fallback::decide(&failure), by, room);
            Decided { decision, policy: digests(&self.policy.current()) }
        })
    }

    /// As [`Decider::decide`], on this thread.
    pub fn decide_now(
        &self,
        failure: &Failure,
        payload: &Arc<Payload>,
        room: Milliseconds,
    ) -> Decided {
        // Here too, so that the record has what the policy was told.
        let failure = &*failure.within_bounds();
        let policy = self.policy.current();
        let asked = policy.evaluate(failure, payload);
        if asked.answer.is_err() && !is_explained_by_size(&policy, failure, &asked) {
            self.policy.record_failure(&policy, &failure.message_id);
        }
        let decision = decide(&self.bounds, failure, &asked, room);
        self.metrics.add(&decision, asked.took);
        let record = self.tell(&policy, failure, asked, &decision);
        if let Some(record) = record {
            self.record(record, payload, room);
        }
        Decided {
            decision,
            policy: digests(&policy),
        }
    }

    /// The policy's answer to a failure that did not happen, for checks before the first message.
    pub(crate) fn rehearse(&self, failure: &Failure) -> Decision {
        let asked = self.policy.current().evaluate(failure, &Arc::default());
        decide(&self.bounds, failure, &asked, Milliseconds(u32::MAX))
    }

    /// Logs it; the record, where somebody wants one.
    fn tell(
        &self,
        policy: &Policy,
        failure: &Failure,
        asked: Evaluation,
        decision: &Decision,
    ) -> Option<DecisionRecord> {
        for line in &asked.log {
            tracing::debug!(target: "backstop::policy", queue = self.queue, "message-id" = failure.message_id, level = line.level, "{}", line.message);
        }
        if let Err(broken) = &asked.answer {
            warn_of(broken, &self.queue, failure, policy);
        }
        if self.observers.is_empty() && self.shadow.is_none() {
            return None;
        }
        Some(DecisionRecord {
            time: clock::now(),
            queue: self.queue.clone(),
            policy: policy.parts().collect(),
            failure: failure.clone(),
            payload: asked.looked_at.parts,
            payload_left_out: asked.looked_at.left_out,
            decision: decision.clone(),
            log: asked.log,
            fuel: asked.fuel,
            took_us: u64::try_from(asked.took.as_micros()).unwrap_or(u64::MAX),
            shadow: None,
        })
    }

    /// Tells the observers now, or once the shadow has answered.
    fn record(&self, record: DecisionRecord, payload: &Arc<Payload>, room: Milliseconds) {
        if let Some(shadow) = &self.shadow {
            let observers = self.observers.clone();
            shadow.compare(Case::new(record, payload, self.bounds, room, observers));
            return;
        }
        for observer in &self.observers {
            observer.decided(&record);
        }
    }
}

/// Whether a policy that broke did so on the size of what it read from the message: asked about the same failure of a message in which it finds nothing, it answers. That is no reason to take a version back, or any sender could have it taken back. The failure itself is never larger than what every version was tried with.
fn is_explained_by_size(policy: &Policy, failure: &Failure, asked: &Evaluation) -> bool {
    asked.looked_at.bytes_read > SMALL && policy.evaluate(failure, &Arc::default()).answer.is_ok()
}

fn digests(policy: &Policy) -> String {
    let digests: Vec<_> = policy.digests().iter().map(ToString::to_string).collect();
    digests.join(",")
}

fn warn_of(broken: &EvaluationError, queue: &str, failure: &Failure, policy: &Policy) {
    tracing::warn!(
        queue,
        "message-id" = failure.message_id,
        attempt = failure.attempt.get(),
        policy = policy.title(),
        "the policy {broken}: the fallback decides"
    );
}

/// The answer of the policy or of the fallback, within the bounds.
fn decide(bounds: &Bounds, failure: &Failure, asked: &Evaluation, room: Milliseconds) -> Decision {
    let (answer, by) = match &asked.answer {
        Ok(answer) => (answer.clone(), DecidedBy::Policy),
        Err(broken) => (
            fallback::decide(failure),
            DecidedBy::Fallback(format!("the policy {broken}")),
        ),
    };
    bounds.keep(failure, answer, by, room)
}
