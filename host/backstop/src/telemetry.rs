//! The metrics by name: [`METRICS`] lists them all, and `host/docs/metrics.md` documents them.
//!
//! Without a running exporter nothing is recorded, and a count costs the test of a pointer. Counters are bound to the exporter when they are created, so the exporter has to start first.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, SharedString, Unit, counter, gauge, histogram};

use backstop_versions::{REFUSALS, ROLLBACKS, SWAPS};

use crate::decision::{Action, Decision, ErrorClass, Hold};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit as a suffix as in Prometheus.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub meaning: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of durations in seconds, with these upper bounds.
    Histogram(&'static [f64]),
}

const RECEIVED: &str = "backstop_messages_received_total";
const RECEIVE_ERRORS: &str = "backstop_receive_errors_total";
const POLLS: &str = "backstop_polls";
const MESSAGES: &str = "backstop_messages_total";
const DEAD_LETTERS_REFUSED: &str = "backstop_dead_letters_refused_total";
const DEAD_LETTERS_WAITING: &str = "backstop_dead_letters_waiting";
const REQUESTS: &str = "backstop_sqs_requests_total";
const HOLDS: &str = "backstop_holds_total";
const HOPS: &str = "backstop_hops_total";
const DUPLICATES: &str = "backstop_duplicates_total";
const IDEMPOTENCY: &str = "backstop_idempotency_total";
const DECISIONS: &str = "backstop_decisions_total";
const DECISION_SECONDS: &str = "backstop_decision_seconds";
const DELAY_SECONDS: &str = "backstop_delay_seconds";
const POLICY_INFO: &str = "backstop_policy_info";
const UNREACHABLE: &str = "backstop_policy_source_unreachable";
const SHADOW_COMPARISONS: &str = "backstop_shadow_comparisons_total";
const SHADOW_DIFFERENCES: &str = "backstop_shadow_differences_total";
const SHADOW_SECONDS: &str = "backstop_shadow_decision_seconds";

/// From the evaluation time of a small component to above the default time limit.
const EVALUATION_TIMES: Kind = Kind::Histogram(&[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5,
]);

/// From a second to the longest delay of 14 days.
const DELAYS: Kind = Kind::Histogram(&[
    0.0,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3_600.0,
    21_600.0,
    43_200.0,
    86_400.0,
    1_209_600.0,
]);

/// All metrics, in the order of the documentation.
pub const METRICS: &[Metric] = &[
    Metric {
        name: RECEIVED,
        kind: Kind::Counter,
        labels: &["queue"],
        meaning: "received messages; a message counts at each receive",
    },
    Metric {
        name: RECEIVE_ERRORS,
        kind: Kind::Counter,
        labels: &["queue"],
        meaning: "failed receive requests, each of which is retried after a pause",
    },
    Metric {
        name: POLLS,
        kind: Kind::Gauge,
        labels: &["queue"],
        meaning: "polls at the same time: 1 on an idle queue, up to `max-polls` on a busy one",
    },
    Metric {
        name: MESSAGES,
        kind: Kind::Counter,
        labels: &["queue", "outcome"],
        meaning: "outcomes of messages: `succeeded`, `retried`, `dead-lettered`, `discarded`, `handed-back` (without an attempt), or `unsettled` (the outcome could not be applied)",
    },
    Metric {
        name: DEAD_LETTERS_REFUSED,
        kind: Kind::Counter,
        labels: &["queue"],
        meaning: "messages that the dead-letter queue rejected; each is sent again",
    },
    Metric {
        name: DEAD_LETTERS_WAITING,
        kind: Kind::Gauge,
        labels: &["queue"],
        meaning: "dead letters that the dead-letter queue has not accepted yet",
    },
    Metric {
        name: REQUESTS,
        kind: Kind::Counter,
        labels: &["queue", "request"],
        meaning: "requests to SQS: `receive`, and batches of `delete`, `change-visibility` and `send`",
    },
    Metric {
        name: HOLDS,
        kind: Kind::Counter,
        labels: &["queue", "by"],
        meaning: "messages held until their next attempt, by `visibility` or by `resend`; each hop counts",
    },
    Metric {
        name: HOPS,
        kind: Kind::Counter,
        labels: &["queue"],
        meaning: "messages sent again without an attempt, because SQS delays a message for 15 minutes at most",
    },
    Metric {
        name: DUPLICATES,
        kind: Kind::Counter,
        labels: &["queue"],
        meaning: "second copies of messages, left by a host that stopped between sending a message again and deleting it",
    },
    Metric {
        name: IDEMPOTENCY,
        kind: Kind::Counter,
        labels: &["queue", "result"],
        meaning: "messages of a queue with `idempotency`, by what the table said: `fresh`, `taken-over` (from an owner whose lease was over), `repeated`, `in-progress` elsewhere, `refused` (another payload, an unknown outcome, no key), or `store-failed` (no answer, so the work did not run). In addition to `fresh` or `taken-over`: `lease-ended` before the work did, or `not-recorded` (the work is done and may be done again)",
    },
    Metric {
        name: DECISIONS,
        kind: Kind::Counter,
        labels: &["queue", "by", "verdict", "class"],
        meaning: "applied decisions by `policy`, `shortened`, `bound` or `fallback`, as in the decision record; a policy's own class is `other`",
    },
    Metric {
        name: DECISION_SECONDS,
        kind: EVALUATION_TIMES,
        labels: &["queue"],
        meaning: "evaluation time of the policy",
    },
    Metric {
        name: DELAY_SECONDS,
        kind: DELAYS,
        labels: &["queue"],
        meaning: "delays of retries",
    },
    Metric {
        name: POLICY_INFO,
        kind: Kind::Gauge,
        labels: &["queue", "role", "policy", "digest"],
        meaning: "1 for each component of the active version, 0 for earlier ones; the role is `live` or `shadow`, and the digest has twelve digits",
    },
    Metric {
        name: SWAPS,
        kind: Kind::Counter,
        labels: &["policy"],
        meaning: "activated new versions",
    },
    Metric {
        name: REFUSALS,
        kind: Kind::Counter,
        labels: &["policy"],
        meaning: "rejected new versions; the one before stays active",
    },
    Metric {
        name: ROLLBACKS,
        kind: Kind::Counter,
        labels: &["policy"],
        meaning: "rollbacks to the version before, automatic or by the operator",
    },
    Metric {
        name: UNREACHABLE,
        kind: Kind::Gauge,
        labels: &["policy"],
        meaning: "1 while the policy's source is unreachable, else 0",
    },
    Metric {
        name: SHADOW_COMPARISONS,
        kind: Kind::Counter,
        labels: &["queue", "result"],
        meaning: "evaluations of the shadow: it `agreed`, `differed` or was `broken`, or it was `skipped` because it could not keep up or the process ended",
    },
    Metric {
        name: SHADOW_DIFFERENCES,
        kind: Kind::Counter,
        labels: &["queue", "in"],
        meaning: "comparisons that differ in `class`, `verdict`, `delay` or `reason`; one can differ in several. A different reason alone is not a disagreement",
    },
    Metric {
        name: SHADOW_SECONDS,
        kind: EVALUATION_TIMES,
        labels: &["queue"],
        meaning: "evaluation time of the shadow",
    },
];

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
