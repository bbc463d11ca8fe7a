//! The metrics of a batch in CloudWatch's embedded metric format: lines of JSON on standard output, of which CloudWatch Logs makes metrics without a request.
//!
//! The format: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use backstop_core::lock::lock;
use serde_json::{Map, Value, json};

use crate::decision::{Action, DecidedBy};
use crate::failure::Timestamp;
use crate::queue::Message;
use crate::telemetry::{Classes, digest_label};
use backstop_decider::{Decided, DecidedFailure};
use backstop_functions::Event;
use backstop_settle::Settled;

/// The namespace of the metrics in CloudWatch.
const NAMESPACE: &str = "Backstop";

/// The most values of a metric that a line may have.
const VALUES: usize = 100;

/// The most lines of dead letters by class and version that a batch writes: the others are in the total only.
const LINES: usize = 20;

/// Takes a line.
type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// The metrics of the batch under way, and where its lines go. Without a place for them, nothing is counted.
pub(super) struct Metrics {
    sink: OnceLock<Sink>,
    classes: Classes,
    counts: Mutex<Counts>,
}

/// What a batch has come to so far.
#[derive(Debug, Default)]
struct Counts {
    invoked: u64,
    waiting: u64,
    dead_lettered: u64,
    discarded: u64,
    fallbacks: u64,
    delays: Vec<f64>,
    attempts: Vec<f64>,
    ages: Vec<f64>,
    /// The versions that decided.
    policy: String,
    letters: BTreeMap<(String, String), u64>,
}

impl Metrics {
    /// Counts nothing until there is a place for the lines. The configuration names these classes.
    pub(super) fn of(named: impl IntoIterator<Item = String>) -> Self {
        Self {
            sink: OnceLock::new(),
            classes: Classes::of(named),
            counts: Mutex::default(),
        }
    }

    /// Writes lines to `sink` from now on.
    pub(super) fn export_to(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.sink.set(Box::new(sink));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        if self.sink.get().is_some() {
            change(&mut lock(&self.counts));
        }
    }

    /// A failed event was decided about. Only the first decision after a failure counts: a message that waits is decided about at each receive.
    pub(super) fn decided(
        &self,
        message: &Message,
        event: &Event,
        decided: &Decided,
        now: Timestamp,
    ) {
        let is_first = message.receive_count.get() == 1 && message.envelope.is_none();
        self.count(|counts| {
            counts.policy = digest_label(&decided.policy);
            if !is_first {
                return;
            }
            let decision = &decided.decision;
            if let DecidedBy::Fallback(_) = decision.decided_by {
                counts.fallbacks += 1;
            }
            if let Action::Retry { delay } = &decision.action {
                counts.delays.push(delay.as_duration().as_secs_f64());
            }
            let attempt = event.next_attempt().get().saturating_sub(1);
            counts.attempts.push(f64::from(attempt));
            counts
                .ages
                .push(now.since(event.first_failed).as_secs_f64());
        });
    }

    /// A function was invoked again.
    pub(super) fn invoked(&self) {
        self.count(|counts| counts.invoked += 1);
    }

    /// A message goes back to the queue, hidden.
    pub(super) fn hidden(&self) {
        self.count(|counts| counts.waiting += 1);
    }

    /// A message was settled.
    pub(super) fn settled(&self, settled: &Settled, decided: DecidedFailure<'_>) {
        self.count(|counts| match settled {
            Settled::Discarded => counts.discarded += 1,
            Settled::DeadLettered => {
                counts.dead_lettered += 1;
                let (class, version) = decided.map_or_else(
                    || ("none".to_owned(), "none".to_owned()),
                    |(_, decided)| {
                        let class = decided.decision.class.to_string();
                        let class = self.classes.name(&class).to_owned();
                        (class, digest_label(&decided.policy))
                    },
                );
                *counts.letters.entry((class, version)).or_default() += 1;
            }
            Settled::SentAgain { .. } => counts.waiting += 1,
            // Hidden, as is one whose function could not be invoked.
            Settled::Waits(_) | Settled::NoDeadLetterQueue | Settled::Refused(..) => {}
        });
    }

    /// The batch of this queue has ended, after so many messages: writes its lines.
    pub(super) fn ended(&self, queue: &str, received: usize, now: Timestamp) {
        let Some(sink) = self.sink.get() else {
            return;
        };
        let counts = std::mem::take(&mut *lock(&self.counts));
        for line in counts.lines(queue, received, now) {
            sink(&(line.to_string() + "\n"));
        }
    }
}

impl Counts {
    fn lines(&self, queue: &str, received: usize, now: Timestamp) -> Vec<Value> {
        let numbers = [
            ("Received", received as u64),
            ("Invoked", self.invoked),
            ("Waiting", self.waiting),
            ("DeadLettered", self.dead_lettered),
            ("Discarded", self.discarded),
            ("Fallbacks", self.fallbacks),
        ];
        let lists = [
            ("Delay", "Seconds", &self.delays),
            ("Attempts", "Count", &self.attempts),
            ("Age", "Seconds", &self.ages),
        ];
        let numbers = numbers.map(|(name, number)| (name, "Count", json!(number)));
        let lists = lists
            .into_iter()
            .filter(|(_, _, values)| !values.is_empty());
        let lists = lists.map(|(name, unit, values)| {
            let values = values.iter().take(VALUES).collect::<Vec<_>>();
            (name, unit, json!(values))
        });
        let all = numbers.into_iter().chain(lists).collect();
        let mut total = line(now, &[&["Queue"]], all, &[("Queue", queue)]);
        if !self.policy.is_empty() {
            total.insert("Policy".to_owned(), json!(self.policy));
        }
        let mut lines = vec![Value::Object(total)];
        let letters = self.letters.iter().take(LINES);
        lines.extend(letters.map(|((class, version), count)| {
            let dimensions: &[&[&str]] = &[&["Queue", "Class"], &["Queue", "Version"]];
            let values = [("Queue", queue), ("Class", class), ("Version", version)];
            let metric = vec![("DeadLettered", "Count", json!(count))];
            Value::Object(line(now, dimensions, metric, &values))
        }));
        lines
    }
}

/// A line with these metrics, each with its unit and its value or values.
fn line(
    now: Timestamp,
    dimensions: &[&[&str]],
    metrics: Vec<(&str, &str, Value)>,
    texts: &[(&str, &str)],
) -> Map<String, Value> {
    let definitions = metrics
        .iter()
        .map(|(name, unit, _)| json!({"Name": name, "Unit": unit}));
    let definitions: Vec<_> = definitions.collect();
    let about = json!({
        "Timestamp": now.0,
        "CloudWatchMetrics": [{
            "Namespace": NAMESPACE,
            "Dimensions": dimensions,
            "Metrics": definitions,
        }],
    });
    let texts = texts
        .iter()
        .map(|(name, text)| ((*name).to_owned(), json!(text)));
    let values = metrics
        .into_iter()
        .map(|(name, _, value)| (name.to_owned(), value));
    let about = std::iter::once(("_aws".to_owned(), about));
    about.chain(texts).chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_defines_every_metric_that_it_has_and_no_other() {
        let counts = Counts {
            invoked: 3,
            dead_lettered: 2,
            delays: vec![1.5; 150],
            policy: "900d".to_owned(),
            letters: [(("permanent".to_owned(), "900d".to_owned()), 2)].into(),
            ..Counts::default()
        };
        let lines = counts.lines("retries", 200, Timestamp(7));
        assert_eq!(lines.len(), 2);
        for line in &lines {
            let of = &line["_aws"]["CloudWatchMetrics"][0];
            for metric in of["Metrics"].as_array().unwrap() {
                let value = &line[metric["Name"].as_str().unwrap()];
                let values = value.as_array().map_or(1, Vec::len);
                assert!(!value.is_null() && values <= VALUES, "{metric}: {value}");
            }
            for dimension in of["Dimensions"].as_array().unwrap() {
                for name in dimension.as_array().unwrap() {
                    assert!(line[name.as_str().unwrap()].is_string(), "{name}");
                }
            }
            assert_eq!(line["_aws"]["Timestamp"], 7);
        }
        assert_eq!(
            (&lines[0]["Invoked"], &lines[0]["Policy"]),
            (&json!(3), &json!("900d"))
        );
        assert!(lines[0].get("Age").is_none());
        assert_eq!(
            (&lines[1]["Class"], &lines[1]["DeadLettered"]),
            (&json!("permanent"), &json!(2))
        );
    }
}
