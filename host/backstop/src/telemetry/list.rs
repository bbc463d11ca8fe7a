//! The list of all metrics: names, kinds, labels and meanings.

use backstop_versions::{REFUSALS, ROLLBACKS, SWAPS};

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

pub(super) const RECEIVED: &str = "backstop_messages_received_total";
pub(super) const RECEIVE_ERRORS: &str = "backstop_receive_errors_total";
pub(super) const POLLS: &str = "backstop_polls";
pub(super) const GATE_CLOSED: &str = "backstop_gate_closed";
pub(super) const MESSAGES: &str = "backstop_messages_total";
pub(super) const DEAD_LETTERS_REFUSED: &str = "backstop_dead_letters_refused_total";
pub(super) const DEAD_LETTERS_WAITING: &str = "backstop_dead_letters_waiting";
pub(super) const REQUESTS: &str = "backstop_sqs_requests_total";
pub(super) const HOLDS: &str = "backstop_holds_total";
pub(super) const HOPS: &str = "backstop_hops_total";
pub(super) const DUPLICATES: &str = "backstop_duplicates_total";
pub(super) const IDEMPOTENCY: &str = "backstop_idempotency_total";
pub(super) const DECISIONS: &str = "backstop_decisions_total";
pub(super) const DECISION_SECONDS: &str = "backstop_decision_seconds";
pub(super) const DELAY_SECONDS: &str = "backstop_delay_seconds";
pub(super) const POLICY_INFO: &str = "backstop_policy_info";
pub(super) const UNREACHABLE: &str = "backstop_policy_source_unreachable";
pub(super) const SHADOW_COMPARISONS: &str = "backstop_shadow_comparisons_total";
pub(super) const SHADOW_DIFFERENCES: &str = "backstop_shadow_differences_total";
pub(super) const SHADOW_SECONDS: &str = "backstop_shadow_decision_seconds";
pub(super) const ADMIN_REFUSED: &str = "backstop_admin_refused_total";

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
        name: GATE_CLOSED,
        kind: Kind::Gauge,
        labels: &["queue"],
        meaning: "1 while the queue is not polled because its worker is unavailable, else 0",
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
        meaning: "second copies of messages, left by a host that stopped between sending a message again and deleting it, or by a send whose answer was lost",
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
    Metric {
        name: ADMIN_REFUSED,
        kind: Kind::Counter,
        labels: &["reason"],
        meaning: "requests that the admin interface refused: without the right `token`, or of another `site` or host name",
    },
];
