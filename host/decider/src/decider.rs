//! From a failure to a decision: the live policy is evaluated, [`decide`] turns its answer into a decision, and the observers see it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::decided::{Decided, Journey, PayloadParts, RememberedFailure};
use crate::decision::{
    Answer, Bounds, DecidedBy, Decision, FallbackCause, FallbackKind, Hold, Reach, Resend, decide,
};
use crate::decision_threads::DecisionThreads;
use crate::events::Events;
use crate::failure::{Failure, Milliseconds};
use crate::observers::{DecisionMade, Observers};
use crate::policy::{Evaluation, LivePolicy, Payload, Policy};
use crate::record::{Observer, Recorded};
use crate::shadow::{SETTLE_TIMEOUT, Shadow};

/// The most that is remembered of what a policy has read from a message while that waits, in bytes.
const SMALL_READ: usize = 4 << 10;

/// Decides for one queue.
#[derive(Clone)]
#[must_use = "it decides when it is asked"]
pub struct Decider {
    policy: Arc<LivePolicy>,
    bounds: Bounds,
    observers: Observers,
    /// Without them, decisions are made where they are asked for.
    threads: Option<Arc<DecisionThreads>>,
}

backstop_core::shown!(Decider, decider =>
    queue = decider.observers.queue(), policy = decider.policy, bounds = decider.bounds
);

impl Decider {
    /// Decides for the queue with this name, with the version of the policy that is live at the time.
    pub fn new(queue: impl Into<String>, policy: Arc<LivePolicy>, bounds: Bounds) -> Self {
        Self {
            policy,
            bounds,
            observers: Observers::of(queue.into()),
            threads: Some(Arc::default()),
        }
    }

    /// Passes every decision to this observer too.
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// Decides on the thread that asks, so that nothing depends on how threads take turns: for simulations. A slow policy holds up everything else there.
    pub fn in_place(self) -> Self {
        Self {
            threads: None,
            ..self
        }
    }

    /// Which events observers hear of, besides decisions.
    pub fn recording(mut self, recorded: Recorded) -> Self {
        self.observers.set_recorded(recorded);
        self
    }

    /// Who hears what happens to messages between decisions.
    pub fn events(&self) -> &Events {
        self.observers.events()
    }

    /// Compares every decision with this shadow. Observers receive the decision after the shadow has answered.
    pub fn shadowed_by(mut self, shadow: Option<Arc<Shadow>>) -> Self {
        self.observers.set_shadow(shadow);
        self
    }

    /// The live policy.
    pub fn policy(&self) -> &Arc<LivePolicy> {
        &self.policy
    }

    /// The shadow, if the queue has one.
    pub fn shadow(&self) -> Option<&Arc<Shadow>> {
        self.observers.shadow()
    }

    /// Waits briefly for the shadow's last answers, then reports the decisions without one. Called before the records are closed.
    pub async fn settle(&self) {
        let Some(shadow) = self.shadow().cloned() else {
            return;
        };
        let settling = tokio::task::spawn_blocking(move || shadow.settle(SETTLE_TIMEOUT));
        if let Err(error) = settling.await {
            tracing::error!(%error, "the last decision records may be lost");
        }
    }

    /// The bounds of its queue.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The age from which a message is not retried, if the operator has set one.
    pub fn max_age(&self) -> Option<Milliseconds> {
        self.bounds.max_age
    }

    /// Adds the queue's retention to the bounds, unless the operator has set one.
    pub fn within_retention(mut self, retention: Milliseconds) -> Self {
        self.bounds.retention.get_or_insert(retention);
        self
    }

    /// The decision on a failure of a message with this journey.
    ///
    /// A policy that answers quickly is evaluated at once. Any other one is evaluated on a thread for blocking work, so that a slow policy delays only the decisions of its own queue.
    pub async fn decide(
        &self,
        failure: &Arc<Failure>,
        payload: Arc<Payload>,
        journey: Journey,
    ) -> Decided {
        let Some(threads) = &self.threads else {
            return self.decide_now(failure, &payload, journey);
        };
        let quickly = || self.decide_quickly(failure, &payload, &journey);
        // What is passed on is whole, whenever a panic ends this.
        match catch_unwind(AssertUnwindSafe(quickly)) {
            Ok(Some(decided)) => return decided,
            Ok(None) => {}
            Err(_) => return self.host_failed(failure, journey.reach),
        }
        let (decider, reach) = (self.clone(), journey.reach);
        let input = Arc::clone(failure);
        let decided = threads.run(move || decider.decide_now(&input, &payload, journey));
        decided
            .await
            .unwrap_or_else(|| self.host_failed(failure, reach))
    }

    /// The fallback's decision, after a panic.
    fn host_failed(&self, failure: &Failure, reach: Reach) -> Decided {
        tracing::error!(
            "message-id" = failure.message_id,
            "the evaluation failed: the fallback decides"
        );
        let cause = FallbackCause::new(
            FallbackKind::HostFailed,
            "the host failed while it evaluated the policy",
        );
        Decided {
            decision: decide(failure, Err(cause), &self.bounds, reach),
            policy: digests(&self.policy.current()),
            payload: Some(PayloadParts::new()),
        }
    }

    /// Like [`Decider::decide`], on this thread.
    pub fn decide_now(
        &self,
        failure: &Failure,
        payload: &Arc<Payload>,
        journey: Journey,
    ) -> Decided {
        // The policy applies these limits too. Here they make the record show the same failure.
        let failure = &*failure.within_bounds();
        let policy = self.policy.current();
        let evaluation = policy.evaluate(failure, payload);
        self.conclude(&policy, failure, payload, journey, evaluation)
    }

    /// Like [`Decider::decide_now`], if the policy answers quickly. `None` if it does not: nothing has happened then.
    fn decide_quickly(
        &self,
        failure: &Failure,
        payload: &Arc<Payload>,
        journey: &Journey,
    ) -> Option<Decided> {
        let failure = &*failure.within_bounds();
        let policy = self.policy.current();
        let evaluation = policy.evaluate_quickly(failure, payload)?;
        Some(self.conclude(&policy, failure, payload, journey.clone(), evaluation))
    }

    /// The decision that follows from an evaluation. The observers see it.
    fn conclude(
        &self,
        policy: &Arc<Policy>,
        failure: &Failure,
        payload: &Arc<Payload>,
        journey: Journey,
        evaluation: Evaluation,
    ) -> Decided {
        self.policy.record(policy, failure, &evaluation);
        let decision = decide(failure, answer(&evaluation), &self.bounds, journey.reach);
        let reads = &evaluation.payload_reads;
        let decided = Decided {
            decision: decision.clone(),
            policy: digests(policy),
            payload: (reads.left_out == 0 && reads.bytes_read <= SMALL_READ)
                .then(|| reads.parts.clone()),
        };
        self.observers.decided(DecisionMade {
            policy,
            failure,
            payload,
            bounds: self.bounds,
            journey,
            evaluation,
            decision,
        });
        decided
    }

    /// The decision of this version on a failure that is remembered, as if the message could wait for any time in this way: `Ok` if it is the policy's, `Err` if it is the fallback's because the policy breaks. `None` if the policy reads parts of the payload that are not remembered. No observer sees it.
    pub fn decide_again(
        &self,
        policy: &Policy,
        remembered: RememberedFailure,
        hold: Hold,
    ) -> Option<Result<Decision, Decision>> {
        let RememberedFailure {
            failure,
            kept,
            payload,
        } = remembered;
        let failure = &*failure.within_bounds();
        let evaluation = policy.evaluate(failure, &Arc::new(Payload::recorded(payload)));
        if !evaluation.payload_reads.unknown.is_empty() {
            return None;
        }
        let reach = Reach {
            visibility: Milliseconds(u32::MAX),
            kept,
            resend: match hold {
                Hold::Visibility => Resend::Never,
                // Its queue does not drop it.
                Hold::Resend => Resend::Always,
            },
        };
        let decision = decide(failure, answer(&evaluation), &self.bounds, reach);
        Some(match &decision.decided_by {
            DecidedBy::Fallback(_) => Err(decision),
            DecidedBy::Policy | DecidedBy::Shortened(_) | DecidedBy::Bound(_) => Ok(decision),
        })
    }

    /// The decision on a made-up failure, for checks at startup. No observer sees it.
    pub fn rehearse(&self, failure: &Failure) -> Decision {
        let evaluation = self.policy.current().evaluate(failure, &Arc::default());
        let reach = Reach::visibility(Milliseconds(u32::MAX), failure.age);
        decide(failure, answer(&evaluation), &self.bounds, reach)
    }
}

/// The policy's answer, or why the fallback decides.
fn answer(evaluation: &Evaluation) -> Result<Answer, FallbackCause> {
    evaluation.answer.clone().map_err(|error| error.cause())
}

fn digests(policy: &Policy) -> String {
    let digests: Vec<_> = policy.digests().iter().map(ToString::to_string).collect();
    digests.join(",")
}
