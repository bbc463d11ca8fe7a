//! `backstop policy run`: one failure put before a policy, and its decision explained.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::output::println;
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use clap::Parser;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Named;
use super::failure_args::FailureArgs;
use backstop::config::{parse_number, parse_span};
use backstop::policy::{Evaluation, Limits, Payload, Policy};
use backstop_core::clock;
use backstop_core::decision::{Action, Answer};
use backstop_core::failure::{Failure, Milliseconds, random};
use backstop_core::fallback;
use backstop_core::text::one_line;
use backstop_files::regular_file::{self, GIVEN};

const EXAMPLES: &str = "\
Examples:
  What full jitter makes of a third attempt that was throttled:
    backstop policy run full-jitter --set base=2s --code ThrottlingException --status 429 --attempt 3

  A failure that has a name (see `backstop policy test --presets`):
    backstop policy run full-jitter --preset lambda-timeout --attempt 2

  A policy of your own, asked about a failure that was recorded (see --decisions of `backstop run`):
    head -n 1 decisions.jsonl | backstop policy run ./mine.wasm --failure -";

/// Ask a policy about one failure, and explain the decision
///
/// The failure is told by flags, or read as JSON: a line of decision records, or its `failure`. The answer is the policy's own, before the bounds of any queue; the policy is asked whether or not a host would take it.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    policy: Named,

    /// Read the failure from this file, or - for standard input; flags do not change it
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["preset", "code", "message", "status", "retry_after", "details", "attempt", "age", "previous_delay", "random", "id", "source", "attributes"])]
    failure: Option<PathBuf>,

    #[command(flatten)]
    told: FailureArgs,

    /// Attempts made, the failed one included
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number::<NonZeroU32>)]
    attempt: NonZeroU32,

    /// From the first send of the message to the failure
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "0s")]
    age: Duration,

    /// The delay before the attempt that failed
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    previous_delay: Option<Duration>,

    /// The random number, from 0 to below 1 [default: that of the message's id and the attempt]
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

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let policy = args.policy.load_unprobed()?;
    let json = args.json;
    let (failure, payload) = args.failure()?;
    let asked = policy.evaluate(&failure, &payload);
    if json {
        println!("{}", as_json(&policy, &failure, &asked));
    } else {
        explain(&policy, &failure, &asked);
    }
    match asked.answer {
        Ok(_) => Ok(()),
        Err(broken) => Err(super::BrokenPolicy(broken).into()),
    }
}

impl Args {
    fn failure(self) -> anyhow::Result<(Failure, Arc<Payload>)> {
        let body = self.told.payload()?;
        if let Some(path) = &self.failure {
            let (failure, recorded) = read(path)?;
            let payload = match recorded {
                Some(recorded) if self.told.payload.is_none() => Arc::new(recorded),
                _ => body,
            };
            return Ok((failure, payload));
        }
        let failure = Failure {
            random: self
                .random
                .unwrap_or_else(|| random(&self.id, self.attempt)),
            message_id: self.id,
            attempt: self.attempt,
            age: Milliseconds::from_duration(self.age),
            failed_at: clock::now(),
            previous_delay: self.previous_delay.map(Milliseconds::from_duration),
            error: self.told.error(),
            source: self.told.source,
            attributes: self.told.attributes,
        };
        Ok((failure, body))
    }
}

/// A decision record, as far as it is asked about again.
#[derive(Deserialize)]
struct Recorded {
    #[serde(deserialize_with = "backstop_json::only_object")]
    failure: Failure,
    #[serde(default)]
    payload: BTreeMap<String, Option<String>>,
}

/// A failure, or a decision record with one and with what was read of the payload.
fn read(path: &Path) -> anyhow::Result<(Failure, Option<Payload>)> {
    let read = if path == Path::new("-") {
        regular_file::capped(std::io::stdin(), GIVEN).and_then(regular_file::text)
    } else {
        regular_file::read_text_of_any(path, GIVEN)
    };
    let text = read.with_context(|| format!("can't read the failure in {}", path.display()))?;
    let wrong = || {
        format!(
            "{}: expected the JSON of a failure, or a decision record (host/docs/decision-record.md)",
            path.display()
        )
    };
    let found: Value = serde_json::from_str(&text).with_context(wrong)?;
    // Read from the text once more: a `Value` has no fraction to the last bit.
    if found.get("failure").is_none() {
        let failure = backstop_json::object(&text).with_context(wrong)?;
        return Ok((failure, None));
    }
    let Recorded { failure, payload } = serde_json::from_str(&text).with_context(wrong)?;
    let payload = (!payload.is_empty()).then(|| Payload::recorded(payload));
    Ok((failure, payload))
}

fn as_json(policy: &Policy, failure: &Failure, asked: &Evaluation) -> Value {
    let parts: Vec<_> = policy.parts().collect();
    let mut found = json!({
        "policy": parts,
        "failure": failure,
        "payload": asked.looked_at.parts,
        "payload-left-out": asked.looked_at.left_out,
        "log": asked.log,
        "fuel": asked.fuel,
        "memory": asked.memory,
        "took-us": u64::try_from(asked.took.as_micros()).unwrap_or(u64::MAX),
    });
    let said = match &asked.answer {
        Ok(Answer { class, action }) => json!({"class": class, "action": action}),
        Err(broken) => {
            json!({"broken": broken.to_string(), "fallback": fallback::decide(failure).action})
        }
    };
    if let (Some(found), Some(said)) = (found.as_object_mut(), said.as_object()) {
        found.extend(said.clone());
    }
    found
}

fn explain(policy: &Policy, failure: &Failure, asked: &Evaluation) {
    let line = |name: &str, value: String| println!("{name:<9} {}", one_line(&value));
    let limits = Limits::default();
    line("policy", policy.title());
    line("failure", described(failure));
    match &asked.answer {
        Ok(Answer { class, action }) => {
            line("class", class.to_string());
            line("verdict", verdict(action));
        }
        Err(broken) => {
            let red: Style = AnsiColor::Red.on_default().bold();
            let broken = one_line(&broken.to_string());
            println!("{:<9} {red}the policy {broken}{red:#}", "broken");
            line("fallback", verdict(&fallback::decide(failure).action));
        }
    }
    for (pointer, value) in &asked.looked_at.parts {
        line(
            "read",
            format!("{pointer}: {}", value.as_deref().unwrap_or("nothing there")),
        );
    }
    if asked.looked_at.left_out > 0 {
        let more = format!(
            "{} times more, beyond what is kept",
            asked.looked_at.left_out
        );
        line("read", more);
    }
    for said in &asked.log {
        line("log", format!("{}: {}", said.level, said.message));
    }
    line(
        "used",
        format!(
            "{:?}, {} of {} fuel, {} KiB of {} KiB",
            asked.took,
            asked.fuel,
            limits.fuel,
            asked.memory >> 10,
            limits.memory >> 10
        ),
    );
}

/// A failure in one line, for people.
pub(super) fn described(failure: &Failure) -> String {
    let Failure {
        attempt,
        age,
        error,
        ..
    } = failure;
    let status = error
        .status
        .map_or_else(String::new, |status| format!(" (HTTP {status})"));
    format!(
        "attempt {attempt}, {age} old: {error}{status}; random {:.3}",
        failure.random
    )
}

fn verdict(action: &Action) -> String {
    let verdict = action.verdict();
    match action {
        Action::Retry { delay } => format!("{verdict} in {delay}"),
        Action::DeadLetter { reason } | Action::Discard { reason } => {
            format!("{verdict}: {reason}")
        }
    }
}
