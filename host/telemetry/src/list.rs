//! The list of all metrics. An entry is all that a metric needs besides its use: its meaning, its name, the function that makes it, with a parameter for each label, and its kind. [`METRICS`] and the documents come from it.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use backstop_versions::{REFUSALS, ROLLBACKS, SWAPS};

use super::{Label, Queue};

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
    /// A distribution with these upper bounds: of durations in seconds if its name says so, or of numbers.
    Histogram(&'static [f64]),
}

impl Metric {
    /// Whether it measures seconds.
    pub fn is_in_seconds(&self) -> bool {
        self.name.ends_with("_seconds")
    }
}

/// Makes [`METRICS`] and a function for each metric: a method of [`Queue`], or a function with all labels.
macro_rules! metrics {
    (
        of_queue { $($(#[doc = $meaning:literal])+ $function:ident($($label:ident: $key:literal),*) -> $kind:ident $(($buckets:expr))? = $name:expr;)* }
        others { $($(#[doc = $o_meaning:literal])+ $o_function:ident($($o_label:ident: $o_key:literal),*) -> $o_kind:ident = $o_name:expr;)* }
    ) => {
        /// All metrics, in the order of the documentation.
        pub const METRICS: &[Metric] = &[
            $(Metric {
                name: $name,
                kind: Kind::$kind $(($buckets))?,
                labels: &["queue" $(, $key)*],
                meaning: concat!($($meaning),+).trim_ascii_start(),
            },)*
            $(Metric {
                name: $o_name,
                kind: Kind::$o_kind,
                labels: &[$($o_key),*],
                meaning: concat!($($o_meaning),+).trim_ascii_start(),
            },)*
        ];

        impl Queue {
            $(
                $(#[doc = $meaning])+
                pub fn $function(&self $(, $label: impl Label)*) -> $kind {
                    bound!($kind, $name, "queue" => self.label() $(, $key => $label.label())*)
                }
            )*
        }

        $(
            $(#[doc = $o_meaning])+
            pub fn $o_function($($o_label: impl Label),*) -> $o_kind {
                bound!($o_kind, $o_name, $($o_key => $o_label.label()),*)
            }
        )*
    };
}

macro_rules! bound {
    (Counter, $($rest:tt)*) => { counter!($($rest)*) };
    (Gauge, $($rest:tt)*) => { gauge!($($rest)*) };
    (Histogram, $($rest:tt)*) => { histogram!($($rest)*) };
}

/// From the evaluation time of a small component to above the default time limit.
const EVALUATION_TIMES: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5,
];

/// From a second to the longest delay of 14 days.
const DELAYS: &[f64] = &[
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
];

/// From a handler in the same process to the longest attempt of 12 hours.
const HANDLER_TIMES: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
    3_600.0, 43_200.0,
];

/// The numbers of attempts.
const ATTEMPTS: &[f64] = &[
    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0, 100.0,
];

metrics! {
    of_queue {
        /// received messages; a message counts at each receive
        received() -> Counter = "backstop_messages_received_total";
        /// failed receive requests, each of which is retried after a pause
        receive_errors() -> Counter = "backstop_receive_errors_total";
        /// messages in hand: received, and not settled yet
        in_flight() -> Gauge = "backstop_in_flight";
        /// the most messages in hand: `max-in-flight`, or what an operator has set
        in_flight_limit() -> Gauge = "backstop_in_flight_limit";
        /// duration of attempts that ended in `success` or `failure`, found the worker `unavailable`, or were `interrupted` because the host stopped
        handler_seconds(outcome: "outcome") -> Histogram(HANDLER_TIMES) = "backstop_handler_seconds";
        /// number of the attempt with which a message `succeeded` or was `dead-lettered`
        attempts(outcome: "outcome") -> Histogram(ATTEMPTS) = "backstop_attempts";
        /// polls at the same time: 1 on an idle queue, up to `max-polls` on a busy one
        polls() -> Gauge = "backstop_polls";
        /// 1 while the queue is not polled because its worker is unavailable, else 0
        gate_closed() -> Gauge = "backstop_gate_closed";
        /// breakers that are not closed: 0 or 1, or with keys the number of keys that are down or not at full speed yet
        breakers_open() -> Gauge = "backstop_breakers_open";
        /// times that a message was made invisible without an attempt, because what is behind the worker is down, or its key is at a limit
        held_back() -> Counter = "backstop_held_back_total";
        /// 1 while the queue is not polled because an operator has paused it or a maintenance window is open, else 0
        paused() -> Gauge = "backstop_paused";
        /// outcomes of messages: `succeeded`, `retried`, `dead-lettered`, `discarded`, `handed-back` (without an attempt), or `unsettled` (the outcome could not be applied)
        messages(outcome: "outcome") -> Counter = "backstop_messages_total";
        /// dead letters, by who decided (`policy`, `bound`, or `host` for a message that could not be sent again), by class, and by the digests of the version; a class that the configuration does not name is `other`, and so is a version after the first 64 of the process
        dead_letters(by: "by", class: "class", digest: "digest") -> Counter = "backstop_dead_letters_total";
        /// messages that the dead-letter queue rejected; each is sent again
        dead_letters_refused() -> Counter = "backstop_dead_letters_refused_total";
        /// dead letters that the dead-letter queue has not accepted yet
        dead_letters_waiting() -> Gauge = "backstop_dead_letters_waiting";
        /// requests to SQS: `receive`, and batches of `delete`, `change-visibility` and `send`
        requests(request: "request") -> Counter = "backstop_sqs_requests_total";
        /// requests to SQS that failed, and entries of batches that failed, by error code; a code that is not expected of SQS is `other`
        request_errors(request: "request", code: "code") -> Counter = "backstop_sqs_errors_total";
        /// messages of the queue by its own count, read each `depth-poll`: `visible`, `invisible` (in hand or waiting, at any host) or `delayed`
        depth(state: "state") -> Gauge = "backstop_queue_depth";
        /// messages in a dead-letter queue by its own count, read each `depth-poll`: visible, invisible or delayed
        dead_letter_depth(dead_letter_queue: "dead_letter_queue") -> Gauge = "backstop_dead_letter_queue_depth";
        /// messages that wait for their next attempt and that this host knows, by class and by how they are held (`visibility` or `resend`); a class that the configuration does not name is `other`, and `held-back` are those that were not attempted
        waiting(class: "class", hold: "hold") -> Gauge = "backstop_waiting";
        /// messages that wait and that this host does not remember because there are too many
        waiting_not_remembered() -> Gauge = "backstop_waiting_not_remembered";
        /// age of the oldest message that waits, since it was sent; 0 if none waits
        waiting_oldest() -> Gauge = "backstop_waiting_oldest_seconds";
        /// time until the next message that waits is due; 0 if none waits
        waiting_next_due() -> Gauge = "backstop_waiting_next_due_seconds";
        /// messages that wait and are due `within` `1m`, `5m`, `15m` or `1h`
        waiting_due(within: "within") -> Gauge = "backstop_waiting_due";
        /// messages that come sooner than decided, because of a `wake` or a `reconsideration`, or because what they were held back for has ended (`brought-back`)
        woken(by: "by") -> Counter = "backstop_woken_total";
        /// groups of a FIFO queue whose first message waits at this host, so that nothing of the group is attempted
        blocked_groups() -> Gauge = "backstop_blocked_groups";
        /// messages that stand behind those of `backstop_blocked_groups`, as far as this host has received them: SQS delivers no others
        blocked_messages() -> Gauge = "backstop_blocked_messages";
        /// messages held until their next attempt, by `visibility` or by `resend`; each hop counts
        holds(by: "by") -> Counter = "backstop_holds_total";
        /// messages sent again without an attempt, because SQS delays a message for 15 minutes at most
        hops() -> Counter = "backstop_hops_total";
        /// second copies of messages, left by a host that stopped between sending a message again and deleting it, or by a send whose answer was lost
        duplicates() -> Counter = "backstop_duplicates_total";
        /// messages of a queue with `idempotency`, by what the table said: `fresh`, `taken-over` (from an owner whose lease was over), `repeated`, `in-progress` elsewhere, `refused` (another payload, an unknown outcome, no key), or `store-failed` (no answer, so the work did not run). In addition to `fresh` or `taken-over`: `lease-ended` before the work did, or `not-recorded` (the work is done and may be done again)
        idempotency(result: "result") -> Counter = "backstop_idempotency_total";
        /// applied decisions by `policy`, `shortened`, `bound` or `fallback`, as in the decision record; a policy's own class is `other`
        decisions(by: "by", verdict: "verdict", class: "class") -> Counter = "backstop_decisions_total";
        /// evaluation time of the policy
        decision_seconds() -> Histogram(EVALUATION_TIMES) = "backstop_decision_seconds";
        /// delays of retries
        delay_seconds() -> Histogram(DELAYS) = "backstop_delay_seconds";
        /// evaluations of the shadow: it `agreed`, `differed` or was `broken`, or it was `skipped` because it could not keep up or the process ended
        comparisons(result: "result") -> Counter = "backstop_shadow_comparisons_total";
        /// comparisons that differ in `class`, `verdict`, `delay`, `reason` or `outage`; one can differ in several. A different reason alone is not a disagreement
        differences(part: "in") -> Counter = "backstop_shadow_differences_total";
        /// evaluation time of the shadow
        shadow_seconds() -> Histogram(EVALUATION_TIMES) = "backstop_shadow_decision_seconds";
    }
    others {
        /// 1 for each component of the active version, 0 for earlier ones; the role is `live` or `shadow`, and the digest has twelve digits
        policy_info(queue: "queue", role: "role", policy: "policy", digest: "digest") -> Gauge = "backstop_policy_info";
        /// activated new versions
        swaps(policy: "policy") -> Counter = SWAPS;
        /// rejected new versions; the one before stays active
        refusals(policy: "policy") -> Counter = REFUSALS;
        /// rollbacks to the version before, automatic or by the operator
        rollbacks(policy: "policy") -> Counter = ROLLBACKS;
        /// 1 while the policy's source is unreachable, else 0
        source_unreachable(policy: "policy") -> Gauge = "backstop_policy_source_unreachable";
        /// 1; the label is the version of Backstop
        build_info(version: "version") -> Gauge = "backstop_build_info";
        /// decision records that were not written, because their reader has stopped or the disk is full
        records_dropped() -> Counter = "backstop_records_dropped_total";
        /// log lines that were not written, because their reader has stopped or the disk is full
        log_lines_dropped() -> Counter = "backstop_log_lines_dropped_total";
        /// 1 while the host does not do what its configuration says: SIGHUP found a mistake, or changes that need a restart; else 0
        configuration_outdated() -> Gauge = "backstop_configuration_outdated";
        /// requests that the admin interface refused: without the right `token`, or of another `site` or host name
        admin_refused(reason: "reason") -> Counter = "backstop_admin_refused_total";
    }
}
