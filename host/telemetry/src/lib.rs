//! The metrics by name: [`METRICS`] lists them all, and `host/docs/operate/metrics.md` documents them.
//!
//! Without a running exporter nothing is recorded, and a count costs the test of a pointer. Counters are bound to the exporter when they are created, so the exporter has to start first.

mod dead_letters;
mod list;

use std::sync::Arc;
use std::time::Duration;

use metrics::{Histogram, SharedString, Unit};

use backstop_core::decision::{Action, Decision, ErrorClass, Hold};

pub use dead_letters::{Classes, DeadLetters, digest_label};
pub use list::{
    Kind, METRICS, Metric, admin_refused, build_info, configuration_outdated, log_lines_dropped,
    policy_info, records_dropped, refusals, rollbacks, source_unreachable, swaps,
};

/// Registers the description of each metric with the exporter.
pub fn describe() {
    for metric in METRICS {
        let (name, meaning) = (metric.name, metric.meaning);
        let unit = if metric.is_in_seconds() {
            Unit::Seconds
        } else {
            Unit::Count
        };
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(name, unit, meaning),
            Kind::Gauge => metrics::describe_gauge!(name, unit, meaning),
            Kind::Histogram(_) => metrics::describe_histogram!(name, unit, meaning),
        }
    }
}

/// The `queue` label, which many metrics share.
#[derive(Debug, Clone)]
pub struct Queue(Arc<str>);

impl Queue {
    /// The label of the queue with this name.
    pub fn named(name: &str) -> Self {
        Self(name.into())
    }

    fn label(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.0))
    }
}

/// The value of a label.
pub trait Label {
    /// Its text.
    fn label(self) -> SharedString;
}

impl Label for &'static str {
    fn label(self) -> SharedString {
        SharedString::const_str(self)
    }
}

impl Label for String {
    fn label(self) -> SharedString {
        self.into()
    }
}

impl Label for Hold {
    fn label(self) -> SharedString {
        self.as_str().label()
    }
}

/// The values of the `class` label of decisions.
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
pub struct Decisions {
    queue: Queue,
    took: Histogram,
    delays: Histogram,
}

impl Decisions {
    /// The decisions of this queue. Creates the counter of every possible combination of labels at 0.
    pub fn of(queue: &str) -> Self {
        let queue = Queue::named(queue);
        let decisions = Self {
            took: queue.decision_seconds(),
            delays: queue.delay_seconds(),
            queue,
        };
        for (by, verdicts) in VERDICTS {
            for verdict in *verdicts {
                for class in CLASSES {
                    decisions.queue.decisions(*by, *verdict, class).increment(0);
                }
            }
        }
        decisions
    }

    /// Adds a decision and the evaluation time of the policy.
    pub fn add(&self, decision: &Decision, took: Duration) {
        let by = decision.decided_by.as_str();
        let verdict = decision.action.verdict().as_str();
        // A policy may define any number of classes, so their names are no labels.
        let class = match decision.class {
            ErrorClass::Transient => TRANSIENT,
            ErrorClass::Throttled => THROTTLED,
            ErrorClass::Permanent => PERMANENT,
            ErrorClass::Other(_) => OTHER,
        };
        self.queue.decisions(by, verdict, class).increment(1);
        self.took.record(took);
        if let Action::Retry { delay } = decision.action {
            self.delays.record(delay.as_duration());
        }
    }
}

/// Creates the counters of the policy with this name at 0. An alert on an increase would miss a counter that starts at 1.
pub fn create_policy_counters(policy: &str) {
    for counter in [swaps, refusals, rollbacks] {
        counter(policy.to_owned()).increment(0);
    }
}

/// The values of the `reason` label.
const REFUSALS_OF_ADMIN: [&str; 2] = ["token", "site"];

/// Creates the counters of refused requests at 0.
pub fn create_admin_counters() {
    for reason in REFUSALS_OF_ADMIN {
        admin_refused(reason).increment(0);
    }
}
