//! What is expected of one answer, and the comparison with an answer.

use super::values::{Delay, Text};
use crate::outcome::Row;
use backstop_core::decision::{Action, Answer, Verdict};
use backstop_core::failure::Milliseconds;
use backstop_engine::Evaluation;

/// What is expected of one answer. Absent fields accept any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The class of the error.
    pub class: Option<Text>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// The reason for giving up.
    pub reason: Option<Text>,
    /// The delay.
    pub delay: Option<Delay>,
    /// How long what is behind the message is down. No time at all: the policy says nothing.
    pub down_for: Option<Delay>,
    /// A line that the policy logs.
    pub log: Option<Text>,
}

impl Expected {
    /// Whether only giving up can match.
    pub(super) fn gives_up(&self) -> bool {
        self.reason.is_some()
            || self
                .verdict
                .is_some_and(|verdict| verdict != Verdict::Retry)
    }

    /// Compares field by field. A failed evaluation gives a single row that does not hold.
    pub(super) fn compare(&self, evaluation: &Evaluation) -> Vec<Row> {
        let Answer {
            class,
            action,
            down_for,
        } = match &evaluation.answer {
            Ok(answer) => answer,
            Err(broken) => {
                let got = format!("the policy {broken}");
                return vec![Row::new("answer", self.to_string(), got, false)];
            }
        };
        let mut rows = Vec::new();
        if let Some(expected) = &self.class {
            let class = class.to_string();
            let holds = expected.matches(&class);
            rows.push(Row::new("class", expected.to_string(), class, holds));
        }
        if let Some(expected) = self.verdict {
            let holds = action.verdict() == expected;
            let got = if holds {
                expected.to_string()
            } else {
                action.to_string()
            };
            rows.push(Row::new("verdict", expected.to_string(), got, holds));
        }
        if let Some(expected) = &self.delay {
            let (got, holds) = match action {
                Action::Retry { delay } => (delay.to_string(), expected.allows(*delay)),
                Action::DeadLetter { .. } | Action::Discard { .. } => (action.to_string(), false),
            };
            rows.push(Row::new("delay", expected.to_string(), got, holds));
        }
        if let Some(expected) = &self.reason {
            let (got, holds) = match action {
                Action::Retry { .. } => (action.to_string(), false),
                Action::DeadLetter { reason } | Action::Discard { reason } => {
                    (reason.clone(), expected.matches(reason))
                }
            };
            rows.push(Row::new("reason", expected.to_string(), got, holds));
        }
        rows.extend(self.down_for.map(|expected| outage(expected, *down_for)));
        rows.extend(self.log.as_ref().map(|expected| log(expected, evaluation)));
        rows
    }
}

fn outage(expected: Delay, down_for: Option<Milliseconds>) -> Row {
    let got = down_for.map_or_else(|| "none".to_owned(), |time| time.to_string());
    let holds = expected.allows(down_for.unwrap_or_default());
    Row::new("down-for", expected.to_string(), got, holds)
}

fn log(expected: &Text, evaluation: &Evaluation) -> Row {
    let mut lines = evaluation.log.iter().map(|line| line.message.as_str());
    let found = lines.find(|line| expected.matches(line));
    let last = evaluation.log.last().map(|line| line.message.as_str());
    let got = found.or(last).unwrap_or("nothing was written").to_owned();
    Row::new("log", expected.to_string(), got, found.is_some())
}

impl std::fmt::Display for Expected {
    /// In one line; `an answer` if nothing in particular is expected.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = [
            self.class.as_ref().map(ToString::to_string),
            self.verdict.map(|verdict| verdict.to_string()),
            self.delay.map(|delay| format!("a delay of {delay}")),
            self.down_for.map(|time| format!("an outage of {time}")),
            self.reason
                .as_ref()
                .map(|reason| format!("the reason {reason}")),
            self.log.as_ref().map(|line| format!("the line {line}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        match parts.as_slice() {
            [] => f.write_str("an answer"),
            parts => f.write_str(&parts.join(", ")),
        }
    }
}
