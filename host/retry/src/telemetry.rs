//! The metrics by name: [`METRICS`] lists them all, and `host/docs/operate/metrics.md` documents them.
//!
//! A retrier and a budget bind their metrics to the exporter when they are built, so the exporter has to be installed first. Without one, nothing is recorded.

use std::sync::Arc;

use backstop_core::decision::ErrorClass;
use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};

use crate::error::End;

/// A metric of a retrier or a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, with the unit as a suffix as in Prometheus.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub meaning: &'static str,
}

/// A row for each metric: its constant, name, kind and labels, and its meaning.
macro_rules! metrics {
    ($($constant:ident $name:literal $kind:literal $labels:tt $meaning:literal)+) => {
        $(const $constant: &str = $name;)+

        /// All metrics of this crate, in the order of the documentation.
        ///
        /// ```
        /// use backstop_retry::telemetry::METRICS;
        ///
        /// let counters = METRICS.iter().filter(|metric| metric.kind == "counter");
        /// assert!(counters.map(|metric| metric.name).all(|name| name.ends_with("_total")));
        /// ```
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $constant,
            kind: $kind,
            labels: &$labels,
            meaning: $meaning,
        }),+];
    };
}

metrics! {
    ATTEMPTS "backstop_retry_attempts_total" "counter" ["retrier"]
        "attempts, first ones and retries"
    FAILURES "backstop_retry_failures_total" "counter" ["retrier", "class"]
        "failed attempts that a policy decided about, by class; a policy's own class is `other`"
    ENDS "backstop_retry_ends_total" "counter" ["retrier", "end"]
        "calls by their end: `succeeded`, `deadline-exceeded`, `budget-exhausted`, `breaker-open`, `bulkhead-full`, `permanent`, `gave-up`, or `cancelled` (dropped by the program)"
    DELAY_SECONDS "backstop_retry_delay_seconds" "histogram" ["retrier"]
        "delays before retries"
    BUDGET_TOKENS "backstop_retry_budget_tokens" "gauge" ["budget"]
        "tokens that are left in the retry budget"
    BUDGET_REFUSALS "backstop_retry_budget_refusals_total" "counter" ["budget"]
        "retries that the budget refused"
    BREAKER_OPEN "backstop_retry_breaker_open" "gauge" ["breaker"]
        "1 while the breaker is open, or a probe is under way"
    BREAKER_REFUSALS "backstop_retry_breaker_refusals_total" "counter" ["breaker"]
        "attempts that the breaker refused"
    BULKHEAD_IN_USE "backstop_retry_bulkhead_in_use" "gauge" ["bulkhead"]
        "attempts that have a place of the bulkhead"
    BULKHEAD_REFUSALS "backstop_retry_bulkhead_refusals_total" "counter" ["bulkhead"]
        "attempts that found the bulkhead full and did not wait"
}

/// The metrics of one retrier, bound once.
pub(crate) struct Metrics {
    pub(crate) attempts: Counter,
    pub(crate) succeeded: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) delays: Histogram,
    /// By [`ErrorClass`]: transient, throttled, permanent, other.
    failures: [Counter; 4],
    /// In the order of [`End::ALL`].
    ends: [Counter; End::ALL.len()],
}

impl Metrics {
    /// The metrics of the retrier with this name. Each counter exists at 0 from now on.
    pub(crate) fn of(retrier: &Arc<str>) -> Self {
        let label = || SharedString::from_shared(Arc::clone(retrier));
        let failures = |class: &'static str| {
            existing(counter!(FAILURES, "retrier" => label(), "class" => class))
        };
        let ends = |end: &'static str| existing(counter!(ENDS, "retrier" => label(), "end" => end));
        Self {
            attempts: existing(counter!(ATTEMPTS, "retrier" => label())),
            succeeded: ends("succeeded"),
            cancelled: ends("cancelled"),
            delays: histogram!(DELAY_SECONDS, "retrier" => label()),
            failures: ["transient", "throttled", "permanent", "other"].map(failures),
            ends: End::ALL.map(|end| ends(end.as_str())),
        }
    }

    /// Counts a failed attempt of this class.
    pub(crate) fn failed(&self, class: &ErrorClass) {
        let [transient, throttled, permanent, other] = &self.failures;
        let counter = match class {
            ErrorClass::Transient => transient,
            ErrorClass::Throttled => throttled,
            ErrorClass::Permanent => permanent,
            ErrorClass::Other(_) => other,
        };
        counter.increment(1);
    }

    /// Counts a call that ended like this.
    pub(crate) fn ended(&self, end: End) {
        let mut counters = End::ALL.iter().zip(&self.ends);
        if let Some((_, counter)) = counters.find(|(known, _)| **known == end) {
            counter.increment(1);
        }
    }
}

/// An alert on an increase would miss a counter that starts at 1.
fn existing(counter: Counter) -> Counter {
    counter.increment(0);
    counter
}

/// What is left in the budget with this name.
pub(crate) fn budget_tokens(budget: &Arc<str>) -> Gauge {
    gauge!(BUDGET_TOKENS, "budget" => SharedString::from_shared(Arc::clone(budget)))
}

/// Counts the refusals of the budget with this name.
pub(crate) fn budget_refusals(budget: &Arc<str>) -> Counter {
    existing(counter!(BUDGET_REFUSALS, "budget" => SharedString::from_shared(Arc::clone(budget))))
}

/// Whether the breaker with this name is open.
pub(crate) fn breaker_open(breaker: &Arc<str>) -> Gauge {
    gauge!(BREAKER_OPEN, "breaker" => SharedString::from_shared(Arc::clone(breaker)))
}

/// Counts the refusals of the breaker with this name.
pub(crate) fn breaker_refusals(breaker: &Arc<str>) -> Counter {
    existing(
        counter!(BREAKER_REFUSALS, "breaker" => SharedString::from_shared(Arc::clone(breaker))),
    )
}

/// The places in use of the bulkhead with this name.
pub(crate) fn bulkhead_in_use(bulkhead: &Arc<str>) -> Gauge {
    gauge!(BULKHEAD_IN_USE, "bulkhead" => SharedString::from_shared(Arc::clone(bulkhead)))
}

/// Counts the refusals of the bulkhead with this name.
pub(crate) fn bulkhead_refusals(bulkhead: &Arc<str>) -> Counter {
    existing(
        counter!(BULKHEAD_REFUSALS, "bulkhead" => SharedString::from_shared(Arc::clone(bulkhead))),
    )
}
