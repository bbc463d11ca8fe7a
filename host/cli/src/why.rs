//! `backstop why`: the life of one message, from decision records.

use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use backstop::record::DecisionRecord;
use backstop_core::clock;
use backstop_core::decision::{Action, DecidedBy};
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::settings::parse_pair;
use backstop_core::text::one_line;
use backstop_workbench::replay::{
    Candidate, Life, Lines, NotComparable, RecordedAnswer, Step, Today,
};
use clap::Parser;

use crate::error::{CommandError, Result};
use crate::output::println;
use crate::policy::progress::Reading;
use crate::policy::replay::candidates::{named, queues};
use crate::policy::replay::size;

const EXAMPLES: &str = "\
Examples:
  Why a message waits, or was dead-lettered:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl

  What a changed policy would say to each of its failures:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl --policy ./mine.wasm

  The same with the policies that the hosts are configured with:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl --config backstop.toml

  Records of several days and hosts:
    zcat decisions-*.gz | backstop why 5fea7756-0ea4-451a-a703-a558b933e274 -

Exits with 1 if no record has the id. `backstop run --decisions FILE` writes records. A dead letter has its message's id in the attribute BackstopMessageId";

/// Show the life of one message: its attempts, why each failed, and what was decided
///
/// The records of the message are shown in their order, whichever file or host they come from: the error, the class, the decision and who made it, and when the next attempt is due. With --policy or --config, each failure also gets the answer of that policy.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The id of the message, as logs, decision records and dead letters have it
    #[arg(value_name = "MESSAGE-ID")]
    message: String,

    /// Files with decision records, or - for standard input
    #[arg(required = true, value_name = "RECORDS")]
    records: Vec<PathBuf>,

    /// Also show the answers of this policy: a built-in, the path of a .wasm or .wat file, a policy's folder (built first if it changed), s3://bucket/key or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL", conflicts_with = "config")]
    policy: Option<String>,

    /// A setting of the policy, such as base=2s; replaces all recorded settings; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "policy")]
    settings: Vec<(String, String)>,

    /// Also show the answers of the policies of the queues in this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the records and answers as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let bytes = size(&args.records)?;
    let candidate = args.candidate()?;
    let mut lines = Lines::of(args.records.clone());
    let reading = Reading::start(bytes, "records");
    let life = Life::read(&args.message, &mut lines, candidate.as_ref(), |read| {
        reading.set(read);
    })?;
    drop(reading);
    if life.decisions.is_empty() {
        return Err(nothing_found(args, &life));
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&life).unwrap_or_default()),
        false => print(&life, clock::now()),
    }
    Ok(())
}

impl Args {
    fn candidate(&self) -> Result<Option<Candidate>> {
        match (&self.policy, &self.config) {
            (Some(name), _) => named(name, &self.settings).map(Some),
            (None, Some(path)) => queues(path, None).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn nothing_found(args: &Args, life: &Life) -> CommandError {
    let files: Vec<_> = args
        .records
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut text = format!(
        "no decision record in {} is of the message {}: it has not failed, or its host writes its records elsewhere (`--decisions`)",
        files.join(", "),
        one_line(&args.message)
    );
    if let Some((at, why)) = &life.unreadable {
        text.push_str(&format!("; {at} names it and is {why}"));
    }
    CommandError::Failed(text)
}

fn print(life: &Life, now: Timestamp) {
    let faint = Style::new().dimmed();
    let queue = life.decisions.first().map_or("", |step| &step.record.queue);
    println!(
        "message {} of {}",
        one_line(&life.message_id),
        one_line(queue)
    );
    for step in &life.decisions {
        let record = &step.record;
        let failure = &record.failure;
        println!();
        // Work in progress elsewhere.
        let attempt = match failure.error.is_in_progress() {
            true => "no attempt".to_owned(),
            false => format!("attempt {}", failure.attempt),
        };
        println!(
            "{attempt}  {}  {}",
            failure.failed_at.rfc3339(),
            one_line(&failure.error.to_string())
        );
        println!("  {}", one_line(&decision(record)));
        for note in notes(record) {
            println!("  {}", one_line(&note));
        }
        for line in &record.log {
            println!(
                "  log {}: {}",
                one_line(&line.level),
                one_line(&line.message)
            );
        }
        if let Some(today) = &step.today {
            let yellow: Style = AnsiColor::Yellow.on_default();
            println!("  {yellow}today: {}{yellow:#}", one_line(&answer(today)));
        }
        println!("  {faint}{}{faint:#}", step.at);
    }
    println!();
    if life.left_out > 0 {
        println!("{} further records are left out", life.left_out);
    }
    if let Some((at, why)) = &life.unreadable {
        println!("{at} names the message and is {why}");
    }
    if let Some(last) = life.decisions.last() {
        println!("{}", what_follows(last, now));
    }
}

/// `transient: retry in 2s (visibility), by full-jitter (3f2a91c04d17) base=2s`
fn decision(record: &DecisionRecord) -> String {
    let decision = &record.decision;
    let verdict = decision.action.verdict();
    let made = match &decision.action {
        Action::Retry { delay } => format!("{verdict} in {delay} ({})", decision.hold.as_str()),
        Action::DeadLetter { reason } | Action::Discard { reason } => {
            format!("{verdict}: {reason}")
        }
    };
    let policy: Vec<_> = record
        .policy
        .iter()
        .map(|part| match part.settings.is_empty() {
            true => part.to_string(),
            false => format!("{part} {}", part.settings),
        })
        .collect();
    let policy = policy.join(" + ");
    let by = match &decision.decided_by {
        DecidedBy::Policy => policy,
        DecidedBy::Shortened(wanted) => format!("{policy}, which wanted {wanted}"),
        DecidedBy::Bound(bound) => format!("the limit of the queue ({bound}), after {policy}"),
        DecidedBy::Fallback(cause) => format!("the fallback: {} ({policy})", cause.text),
    };
    format!("{}: {made}, by {by}", decision.class)
}

/// What else the record says about the attempt.
fn notes(record: &DecisionRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if record.hops > 0 {
        notes.push(format!(
            "sent again {} times before it was due",
            record.hops
        ));
    }
    if record.duplicate {
        notes.push("another copy of the message had made this attempt already".to_owned());
    }
    if let Some(end) = record.end {
        notes.push(format!("the call ended: {end}"));
    }
    notes
}

fn answer(today: &Today) -> String {
    match today {
        Today::Answer(RecordedAnswer::Retry { class, delay }) => {
            let delay = delay.map(|delay| format!(" in {delay}"));
            format!("{class}: retry{}", delay.unwrap_or_default())
        }
        Today::Answer(RecordedAnswer::DeadLetter { class, reason }) => {
            format!("{class}: dead-letter: {reason}")
        }
        Today::Answer(RecordedAnswer::Discard { class, reason }) => {
            format!("{class}: discard: {reason}")
        }
        Today::Answer(RecordedAnswer::Broken { cause, .. }) => format!("the policy {cause}"),
        Today::Unknown(NotComparable::LookedElsewhere) => {
            "unknown: the policy reads parts of the payload that the record does not have"
                .to_owned()
        }
        Today::Unknown(_) => "unknown: the policy took too long".to_owned(),
    }
}

/// What became of the message after its last record, as far as that shows.
fn what_follows(last: &Step, now: Timestamp) -> String {
    let record = &last.record;
    let Action::Retry { delay } = record.decision.action else {
        return format!("It ended with the {}.", record.decision.action.verdict());
    };
    let due = record.failure.failed_at.plus(delay.as_duration());
    if now < due {
        let left = Milliseconds::from_duration(due.since(now));
        return format!("Its next attempt is due at {}, in {left}.", due.rfc3339());
    }
    format!(
        "Its next attempt was due at {}. No later failure is recorded: it succeeded, waits for a host, or is being handled.",
        due.rfc3339()
    )
}
