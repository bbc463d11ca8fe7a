//! `backstop policy run`: passes one failure to a policy and explains the decision.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::Answer;
use backstop_core::failure::{Failure, Milliseconds, random};
use backstop_core::text::one_line;
use backstop_core::{clock, fallback};
use backstop_engine::{Evaluation, Limits, Payload, Policy};
use backstop_files::regular_file::{self, GIVEN};
use backstop_files::values::{parse_number, parse_span};
use clap::Parser;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure_args::{FailureArgs, describe};
use super::named_policy::NamedPolicy;
use crate::error::{Context, Exit, Result, unreadable};
use crate::terminal::style::RED;
use crate::terminal::{Size, joined, println};

const EXAMPLES: &str = "\
Examples:
  How full jitter decides on a third attempt that was throttled:
    backstop policy run full-jitter --set base=2s --code ThrottlingException --status 429 --attempt 3

  A named failure (`backstop policy test --presets` lists them):
    backstop policy run full-jitter --preset lambda-timeout --attempt 2

  Your own policy, with a recorded failure (from `backstop run --decisions`):
    grep -m 1 failed-at decisions.jsonl | backstop policy run ./mine.wasm --failure -";

/// Evaluate a policy with one failure, and explain the decision
///
/// Flags describe the failure, or it is read as JSON: a decision record, or its `failure`. The result is the policy's own answer, before any queue limits apply. The policy is not validated first, so you can also try one that a host would reject.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    policy: NamedPolicy,

    /// Read the failure from this file, or - for standard input; flags can't change it
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["preset", "code", "message", "status", "retry_after", "details", "attempt", "age", "previous_delay", "random", "id", "source", "attributes"])]
    failure: Option<PathBuf>,

    #[command(flatten)]
    given: FailureArgs,

    /// The number of attempts so far, including the failed one
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number::<NonZeroU32>)]
    attempt: NonZeroU32,

    /// The age of the message at the failure, since it was first sent
    #[arg(long, value_name = "DURATION", value_parser = parse_span, default_value = "0s")]
    age: Duration,

    /// The delay before the failed attempt
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    previous_delay: Option<Duration>,

    /// The random number, from 0 to below 1 [default: derived from the message's id and the attempt]
    #[arg(long, value_name = "NUMBER", value_parser = fraction)]
    random: Option<f64>,

    /// The message's id
    #[arg(long, default_value = "m-1")]
    id: String,

    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..1.0).contains(&number) {
        Ok(number)
    } else {
        Err("expected a number from 0 to below 1".to_owned())
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let policy = args.policy.load_unvalidated()?;
    let (failure, payload) = args.failure()?;
    let evaluation = policy.evaluate(&failure, &payload);
    if args.json {
        println!("{}", as_json(&policy, &failure, &evaluation));
    } else {
        explain(&policy, &failure, &evaluation);
    }
    match evaluation.answer {
        Ok(_) => Ok(()),
        Err(error) => Err(Exit::Policy.because(format!(
            "the policy {error}: a host would let the fallback decide"
        ))),
    }
}

impl Args {
    fn failure(&self) -> Result<(Failure, Arc<Payload>)> {
        let body = self.given.payload()?;
        if let Some(path) = &self.failure {
            let (failure, recorded) = read(path)?;
            let payload = match recorded {
                Some(recorded) if self.given.payload.is_none() => Arc::new(recorded),
                _ => body,
            };
            return Ok((failure, payload));
        }
        let failure = Failure {
            random: self
                .random
                .unwrap_or_else(|| random(&self.id, self.attempt)),
            message_id: self.id.clone(),
            attempt: self.attempt,
            age: Milliseconds::from_duration(self.age),
            failed_at: clock::now(),
            previous_delay: self.previous_delay.map(Milliseconds::from_duration),
            error: self.given.error(),
            source: self.given.source.clone(),
            attributes: self.given.attributes.clone(),
        };
        Ok((failure, body))
    }
}

/// The part of a decision record that an evaluation needs.
#[derive(Deserialize)]
struct Recorded {
    #[serde(deserialize_with = "backstop_json::only_object")]
    failure: Failure,
    #[serde(default)]
    payload: BTreeMap<String, Option<String>>,
}

/// The text without lines about events, which records have next to decisions.
fn without_events(text: &str) -> String {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "event")]
        _event: String,
    }
    let is_event = |line: &&str| serde_json::from_str::<Named>(line).is_ok();
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !is_event(line)).collect()
}

/// Reads a failure, or a decision record: its failure, and the parts of the payload that the policy read.
fn read(path: &Path) -> Result<(Failure, Option<Payload>)> {
    let read = if path == Path::new("-") {
        regular_file::capped(std::io::stdin(), GIVEN).and_then(regular_file::text)
    } else {
        regular_file::read_text_of_any(path, GIVEN)
    };
    let text = without_events(&read.map_err(unreadable("the failure", path))?);
    let malformed = || {
        format!(
            "{}: expected the JSON of a failure, or a decision record (host/docs/operate/decision-record.md)",
            path.display()
        )
    };
    let value: Value = serde_json::from_str(&text).with_context(malformed)?;
    // Parsed from the text again: a `Value` loses the last bits of a fraction.
    if value.get("failure").is_none() {
        let failure = backstop_json::object(&text).with_context(malformed)?;
        return Ok((failure, None));
    }
    let Recorded { failure, payload } = serde_json::from_str(&text).with_context(malformed)?;
    let payload = (!payload.is_empty()).then(|| Payload::recorded(payload));
    Ok((failure, payload))
}

fn as_json(policy: &Policy, failure: &Failure, evaluation: &Evaluation) -> Value {
    let parts: Vec<_> = policy.parts().collect();
    let result = json!({
        "policy": parts,
        "failure": failure,
        "payload": evaluation.payload_reads.parts,
        "payload-left-out": evaluation.payload_reads.left_out,
        "log": evaluation.log,
        "fuel": evaluation.fuel,
        "memory": evaluation.memory,
        "took-us": u64::try_from(evaluation.took.as_micros()).unwrap_or(u64::MAX),
    });
    let answer = match &evaluation.answer {
        Ok(Answer {
            class,
            action,
            down_for: None,
        }) => json!({"class": class, "action": action}),
        Ok(Answer {
            class,
            action,
            down_for,
        }) => json!({"class": class, "action": action, "down-for": down_for}),
        Err(error) => {
            json!({"broken": error.to_string(), "fallback": fallback::decide(failure).action})
        }
    };
    joined(result, answer)
}

fn explain(policy: &Policy, failure: &Failure, evaluation: &Evaluation) {
    let line = |name: &str, value: String| println!("{name:<9} {}", one_line(&value));
    let limits = Limits::default();
    line("policy", policy.title());
    line("failure", describe(failure));
    match &evaluation.answer {
        Ok(Answer {
            class,
            action,
            down_for,
        }) => {
            line("class", class.to_string());
            line("verdict", action.to_string());
            if let Some(down_for) = down_for {
                line("down for", down_for.to_string());
            }
        }
        Err(error) => {
            let error = one_line(&error.to_string());
            println!("{:<9} {RED}the policy {error}{RED:#}", "broken");
            line("fallback", fallback::decide(failure).action.to_string());
        }
    }
    for (pointer, value) in &evaluation.payload_reads.parts {
        line(
            "read",
            format!("{pointer}: {}", value.as_deref().unwrap_or("not present")),
        );
    }
    if evaluation.payload_reads.left_out > 0 {
        let more = format!(
            "{} more reads, which are not recorded",
            evaluation.payload_reads.left_out
        );
        line("read", more);
    }
    for entry in &evaluation.log {
        line("log", format!("{}: {}", entry.level, entry.message));
    }
    line(
        "used",
        format!(
            "{:?}, {} of {} fuel, {} of {}",
            evaluation.took,
            evaluation.fuel,
            limits.fuel,
            Size(evaluation.memory),
            Size(limits.memory)
        ),
    );
}
