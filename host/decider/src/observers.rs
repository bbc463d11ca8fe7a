//! Who sees a decision: metrics, the log, the decision record, and the shadow.

use std::sync::Arc;

use crate::clock;
use crate::decided::Journey;
use crate::decision::{Bounds, Decision};
use crate::events::Events;
use crate::failure::Failure;
use crate::policy::{Evaluation, Payload, Policy};
use crate::record::{DecisionRecord, Observer, Recorded};
use crate::shadow::{Case, Shadow};
use crate::telemetry::Decisions;

/// The observers of one queue's decisions.
#[derive(Clone)]
pub(crate) struct Observers {
    metrics: Decisions,
    shadow: Option<Arc<Shadow>>,
    events: Events,
}

/// One decision and everything that it was made from.
pub(crate) struct DecisionMade<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) failure: &'a Failure,
    pub(crate) payload: &'a Arc<Payload>,
    pub(crate) bounds: Bounds,
    pub(crate) journey: Journey,
    pub(crate) evaluation: Evaluation,
    pub(crate) decision: Decision,
}

impl Observers {
    /// Metrics and the log of the queue with this name.
    pub(crate) fn of(queue: String) -> Self {
        Self {
            metrics: Decisions::of(&queue),
            events: Events::of(&queue),
            shadow: None,
        }
    }

    /// Passes records to this observer too.
    pub(crate) fn add(&mut self, recorder: Arc<dyn Observer>) {
        self.events.add(recorder);
    }

    /// Passes these events to the observers.
    pub(crate) fn set_recorded(&mut self, recorded: Recorded) {
        self.events.set_recorded(recorded);
    }

    /// Who hears what happens between decisions.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Compares every decision with this shadow.
    pub(crate) fn set_shadow(&mut self, shadow: Option<Arc<Shadow>>) {
        self.shadow = shadow;
    }

    /// The queue's name.
    pub(crate) fn queue(&self) -> &str {
        self.events.queue()
    }

    /// The shadow, if there is one.
    pub(crate) fn shadow(&self) -> Option<&Arc<Shadow>> {
        self.shadow.as_ref()
    }

    /// Counts, logs and records a decision. A record waits for the shadow's answer; this call does not.
    pub(crate) fn decided(&self, made: DecisionMade<'_>) {
        self.metrics.add(&made.decision, made.evaluation.took);
        self.log(&made);
        if self.events.observers().is_empty() && self.shadow.is_none() {
            return;
        }
        let (payload, bounds, reach) = (made.payload, made.bounds, made.journey.reach);
        let record = self.record(made);
        match &self.shadow {
            Some(shadow) => {
                let recorders = self.events.observers().to_vec();
                shadow.compare(Case::new(record, payload, bounds, reach, recorders));
            }
            None => {
                for recorder in self.events.observers() {
                    recorder.decided(&record);
                }
            }
        }
    }

    /// The policy's own log lines, and how it broke.
    fn log(&self, made: &DecisionMade<'_>) {
        let failure = made.failure;
        for line in &made.evaluation.log {
            tracing::debug!(target: "backstop::policy", queue = self.queue(), "message-id" = failure.message_id, level = line.level, "{}", line.message);
        }
        if let Err(error) = &made.evaluation.answer {
            tracing::warn!(
                queue = self.queue(),
                "message-id" = failure.message_id,
                attempt = failure.attempt.get(),
                policy = made.policy.title(),
                "the policy {error}: the fallback decides"
            );
        }
    }

    fn record(&self, made: DecisionMade<'_>) -> DecisionRecord {
        let Evaluation {
            log,
            payload_reads,
            fuel,
            took,
            ..
        } = made.evaluation;
        DecisionRecord {
            time: clock::now(),
            queue: self.queue().to_owned(),
            policy: made.policy.parts().collect(),
            failure: made.failure.clone(),
            payload: payload_reads.parts,
            payload_left_out: payload_reads.left_out,
            details_left_out: 0,
            decision: made.decision,
            log,
            fuel,
            hops: made.journey.hops,
            duplicate: made.journey.is_duplicate,
            others: made.journey.ids.besides(&made.failure.message_id),
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            end: None,
            shadow: None,
        }
    }
}
