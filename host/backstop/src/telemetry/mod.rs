//! The metrics by name: [`METRICS`] lists them all, and `host/docs/metrics.md` documents them.
//!
//! Without a running exporter nothing is recorded, and a count costs the test of a pointer. Counters are bound to the exporter when they are created, so the exporter has to start first.

mod list;

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, SharedString, Unit, counter, gauge, histogram};

use backstop_versions::{REFUSALS, ROLLBACKS, SWAPS};

use crate::decision::{Action, Decision, ErrorClass, Hold};

use list::*;
pub use list::{Kind, METRICS, Metric};

/// Registers the description of each metric with the exporter.
pub(crate) fn describe() {
    for &Metric {
        name,
        kind,
        meaning,
        ..
    } in METRICS
    {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, Unit::Count, meaning),
            Kind::Gauge => metrics::describe_gauge!(name, Unit::Count, meaning),
            Kind::Histogram(_) => metrics::describe_histogram!(name, Unit::Seconds, meaning),
        }
    }
}

/// The `queue` label, which many metrics share.
#[derive(Debug, Clone)]
pub(crate) struct Queue(Arc<str>);

impl Queue {
    pub(crate) fn named(name: &str) -> Self {
        Self(name.into())
    }

    fn label(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.0))
    }

    /// Counts received messages.
    pub(crate) fn received(&self) -> Counter {
        counter!(RECEIVED, "queue" => self.label())
    }

    /// Counts failed receives.
    pub(crate) fn receive_errors(&self) -> Counter {
        counter!(RECEIVE_ERRORS, "queue" => self.label())
    }

    /// The polls at the same time.
    pub(crate) fn polls(&self) -> Gauge {
        gauge!(POLLS, "queue" => self.label())
    }

    /// Whether the gate is closed.
    pub(crate) fn gate_closed(&self) -> Gauge {
        gauge!(GATE_CLOSED, "queue" => self.label())
    }

    /// Counts messages with this outcome.
    pub(crate) fn messages(&self, outcome: &'static str) -> Counter {
        counter!(MESSAGES, "queue" => self.label(), "outcome" => outcome)
    }

    /// Counts messages that the dead-letter queue rejected.
    pub(crate) fn dead_letters_refused(&self) -> Counter {
        counter!(DEAD_LETTERS_REFUSED, "queue" => self.label())
    }

    /// The dead letters that the dead-letter queue has not accepted yet.
    pub(crate) fn dead_letters_waiting(&self) -> Gauge {
        gauge!(DEAD_LETTERS_WAITING, "queue" => self.label())
    }

    /// Counts requests of this kind.
    pub(crate) fn requests(&self, request: &'static str) -> Counter {
        counter!(REQUESTS, "queue" => self.label(), "request" => request)
    }

    /// Counts messages held in this way.
    pub(crate) fn holds(&self, hold: Hold) -> Counter {
        counter!(HOLDS, "queue" => self.label(), "by" => hold.as_str())
    }

    /// Counts messages sent again without an attempt.
    pub(crate) fn hops(&self) -> Counter {
        counter!(HOPS, "queue" => self.label())
    }

    /// Counts second copies of messages.
    pub(crate) fn duplicates(&self) -> Counter {
        counter!(DUPLICATES, "queue" => self.label())
    }

    /// Counts messages for which the table of `idempotency` had this result.
    #[cfg(feature = "idempotency")]
    pub(crate) fn idempotency(&self, result: &'static str) -> Counter {
        counter!(IDEMPOTENCY, "queue" => self.label(), "result" => result)
    }

    /// Counts comparisons with this result.
    pub(crate) fn comparisons(&self, result: &'static str) -> Counter {
        counter!(SHADOW_COMPARISONS, "queue" => self.label(), "result" => result)
    }

    /// Counts differences in this part of a decision.
    pub(crate) fn differences(&self, part: &'static str) -> Counter {
        counter!(SHADOW_DIFFERENCES, "queue" => self.label(), "in" => part)
    }

    /// Measures the evaluation time of the shadow.
    pub(crate) fn shadow_seconds(&self) -> Histogram {
        histogram!(SHADOW_SECONDS, "queue" => self.label())
    }
}

/// The values of the `class` label.
const TRANSIENT: &str = "transient";
const THROTTLED: &str = "throttled";
const PERMANENT: &str = "permanent";
const OTHER: &str = "other";

const CLASSES: [&str; 4] = [TRANSIENT, THROTTLED, PERMANENT, OTHER];

/// The verdicts that each value of `by` can have.
const VERDICTS: &[(&str, &[&str])] = &[
    ("policy", &["retry", "dead-letter", "discard"]),
    ("shortened", &["retry"]),
    ("bound", &["dead-letter"]),
    ("fallback", &["retry"]),
];

/// Counts and measures the decisions of one queue.
#[derive(Debug, Clone)]
pub(crate) struct Decisions {
    queue: Queue,
    took: Histogram,
    delays: Histogram,
}

impl Decisions {
    /// The decisions of this queue. Creates the counter of every possible combination of labels at 0.
    pub(crate) fn of(queue: &str) -> Self {
        let queue = Queue::named(queue);
        let decisions = Self {
            took: histogram!(DECISION_SECONDS, "queue" => queue.label()),
            delays: histogram!(DELAY_SECONDS, "queue" => queue.label()),
            queue,
        };
        for (by, verdicts) in VERDICTS {
            for verdict in *verdicts {
                for class in CLASSES {
                    decisions.count(by, verdict, class).increment(0);
                }
            }
        }
        decisions
    }

    fn count(&self, by: &'static str, verdict: &'static str, class: &'static str) -> Counter {
        counter!(DECISIONS, "queue" => self.queue.label(), "by" => by, "verdict" => verdict, "class" => class)
    }

    /// Adds a decision and the evaluation time of the policy.
    pub(crate) fn add(&self, decision: &Decision, took: Duration) {
        let by = decision.decided_by.as_str();
        let verdict = decision.action.verdict().as_str();
        // A policy may define any number of classes, so their names are no labels.
        let class = match decision.class {
            ErrorClass::Transient => TRANSIENT,
            ErrorClass::Throttled => THROTTLED,
            ErrorClass::Permanent => PERMANENT,
            ErrorClass::Other(_) => OTHER,
        };
        self.count(by, verdict, class).increment(1);
        self.took.record(took);
        if let Action::Retry { delay } = decision.action {
            self.delays.record(delay.as_duration());
        }
    }
}

/// Creates the counters of the policy with this name at 0. An alert on an increase would miss a counter that starts at 1.
pub(crate) fn create_policy_counters(policy: &str) {
    for name in [SWAPS, REFUSALS, ROLLBACKS] {
        counter!(name, "policy" => policy.to_owned()).increment(0);
    }
}

/// The values of the `reason` label.
const REFUSALS_OF_ADMIN: [&str; 2] = ["token", "site"];

/// Creates the counters of refused requests at 0.
pub(crate) fn create_admin_counters() {
    for reason in REFUSALS_OF_ADMIN {
        admin_refused(reason).increment(0);
    }
}

/// Counts requests that the admin interface refused: without its `token`, or of another `site`.
pub(crate) fn admin_refused(reason: &'static str) -> Counter {
    counter!(ADMIN_REFUSED, "reason" => reason)
}

/// Whether the source of the policy with this name is unreachable.
pub(crate) fn source_unreachable(policy: String) -> Gauge {
    gauge!(UNREACHABLE, "policy" => policy)
}

/// Whether this version of a policy is active on a queue; `role` is `live` or `shadow`.
pub(crate) fn policy_info(
    queue: String,
    role: &'static str,
    policy: String,
    digest: String,
) -> Gauge {
    gauge!(POLICY_INFO, "queue" => queue, "role" => role, "policy" => policy, "digest" => digest)
}
