//! Metrics for CloudWatch from a Lambda function: [`Emf`] writes a line for each attempt, from which CloudWatch extracts metrics.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::{Failure, Timestamp};
use backstop_core::lock::lock;
use backstop_core::text::{cut, visible};
use serde_json::{Map, Value, json};

use crate::error::End;
use crate::event::{Evaluated, Event, Observer};

/// The longest name of a service or a retrier, in bytes. CloudWatch's own limit for a value of a dimension is 1024.
const NAME_BYTES: usize = 250;

/// Writes one line for each attempt in the [embedded metric format](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html) of CloudWatch. In a Lambda function, standard output is all that it takes: no agent, no request, no permission.
///
/// ```
/// use backstop_retry::{Emf, Retrier};
///
/// let retrier = Retrier::builder()
///     .name("payments")
///     .observe(Emf::new("Shop", "charge"))
///     .build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
///
/// Each line has the dimensions `service` and `retrier`, and some of these metrics:
///
/// | metric | unit | in the line of |
/// |---|---|---|
/// | `Failures` | count | each failed attempt |
/// | `Delay` | milliseconds | a failed attempt that is retried: the delay |
/// | `Attempts` | count | the last attempt of a call: the attempts that were made |
/// | `Succeeded`, `DeadlineExceeded`, `BudgetExhausted`, `BreakerOpen`, `BulkheadFull`, `Permanent`, `GaveUp` | count | the last attempt of a call: how it ended |
/// | `BudgetTokens` | none | an attempt that failed: what is left in the retry budget, if there is one |
///
/// Further fields are for searches in the log: `attempt`, `id`, `code`, `class`, and the `level` (`INFO`, or `WARN` at an end without success) and `timestamp` by which Lambda filters. A call's id is no dimension, since each value of a dimension is a metric that costs.
pub struct Emf<W = io::Stdout> {
    namespace: String,
    service: String,
    has_first_successes: bool,
    output: Mutex<W>,
}

impl Emf {
    /// Writes to standard output: metrics in this namespace, for this service. Names are cut at 250 bytes; an empty one becomes `default`.
    pub fn new(namespace: &str, service: &str) -> Self {
        Self::to(io::stdout(), namespace, service)
    }
}

impl<W: Write> Emf<W> {
    /// Writes to `output`.
    pub fn to(output: W, namespace: &str, service: &str) -> Self {
        Self {
            namespace: name(namespace),
            service: name(service),
            has_first_successes: true,
            output: Mutex::new(output),
        }
    }

    /// Leaves out calls that succeed at their first attempt, whose lines cost most on a busy function. `Attempts` and `Succeeded` then count the other calls only.
    #[must_use]
    pub fn without_first_successes(mut self) -> Self {
        self.has_first_successes = false;
        self
    }

    fn write(&self, line: &str) {
        let mut line = visible(line).into_owned();
        line.push('\n');
        let mut output = lock(&self.output);
        // Metrics must not fail a call.
        let _ = output.write_all(line.as_bytes());
        let _ = output.flush();
    }
}

impl<W: Write + Send> Observer for Emf<W> {
    fn observe(&self, event: &Event<'_>) {
        let line = match *event {
            Event::Succeeded { attempts: 1, .. } if !self.has_first_successes => return,
            Event::Succeeded { retrier, attempts } => {
                let mut line = Line::new(retrier, clock::now(), "INFO");
                line.count("Attempts", attempts);
                line.count("Succeeded", 1);
                line.field("attempt", attempts);
                line
            }
            Event::Retrying {
                retrier,
                failure,
                evaluated,
                delay,
                budget_left,
            } => {
                let mut line = Line::new(retrier, failure.failed_at, "INFO");
                line.failed(failure, evaluated);
                line.metric("Delay", "Milliseconds", milliseconds(delay));
                line.budget(budget_left);
                line
            }
            Event::Ended {
                retrier,
                end,
                attempts,
                failed,
                budget_left,
                ..
            } => {
                let time = failed.map_or_else(clock::now, |(failure, _)| failure.failed_at);
                let mut line = Line::new(retrier, time, "WARN");
                if let Some((failure, evaluated)) = failed {
                    line.failed(failure, evaluated);
                }
                line.count("Attempts", attempts);
                line.count(&metric_of(end), 1);
                line.budget(budget_left);
                line
            }
        };
        self.write(&line.finish(&self.namespace, &self.service));
    }
}

/// `GaveUp` for `gave-up`, as CloudWatch's own metrics are named.
fn metric_of(end: End) -> String {
    let words = end.as_str().split('-');
    let capitalised = words.map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    capitalised.collect()
}

/// One line: its metrics, and its fields with their values.
struct Line {
    time: Timestamp,
    metrics: Vec<Value>,
    fields: Map<String, Value>,
}

impl Line {
    fn new(retrier: &str, time: Timestamp, level: &str) -> Self {
        let mut line = Self {
            time,
            metrics: Vec::new(),
            fields: Map::new(),
        };
        line.field("retrier", name(retrier));
        line.field("level", level);
        line.field("timestamp", time.rfc3339());
        line
    }

    fn field(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    fn metric(&mut self, name: &str, unit: &str, value: impl Into<Value>) {
        self.metrics.push(json!({"Name": name, "Unit": unit}));
        self.field(name, value);
    }

    fn count(&mut self, name: &str, count: u32) {
        self.metric(name, "Count", count);
    }

    fn failed(&mut self, failure: &Failure, evaluated: &Evaluated) {
        self.count("Failures", 1);
        self.field("attempt", failure.attempt.get());
        self.field("id", failure.message_id.as_str());
        self.field("code", failure.error.code.as_str());
        self.field("class", evaluated.decision.class.to_string());
    }

    fn budget(&mut self, left: Option<f64>) {
        if let Some(left) = left {
            self.metric("BudgetTokens", "None", left);
        }
    }

    fn finish(mut self, namespace: &str, service: &str) -> String {
        self.field("service", service);
        let directive = json!({
            "Namespace": namespace,
            "Dimensions": [["service", "retrier"]],
            "Metrics": self.metrics,
        });
        let metadata = json!({"Timestamp": self.time.0, "CloudWatchMetrics": [directive]});
        self.fields.insert("_aws".to_owned(), metadata);
        Value::Object(self.fields).to_string()
    }
}

fn milliseconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}

/// A name that CloudWatch takes.
fn name(name: &str) -> String {
    let mut name = name.trim().to_owned();
    cut(&mut name, NAME_BYTES);
    if name.is_empty() {
        "default".to_owned()
    } else {
        name
    }
}

backstop_core::shown!(Emf<W>, emf => namespace = emf.namespace, service = emf.service);

#[cfg(test)]
#[path = "emf_tests.rs"]
mod tests;
