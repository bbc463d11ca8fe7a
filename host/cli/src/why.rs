//! `backstop why`: the life of one message, from decision records and from the hosts that remember it.

mod waiting;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use backstop_core::clock;
use backstop_core::decision::{Action, DecidedBy};
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::settings::parse_pair;
use backstop_core::text::one_line;
use backstop_files::regular_file::described;
use backstop_host::admin::HostMessages;
use backstop_host::config::Config;
use backstop_records::{DecisionRecord, Destination, files_of};
use backstop_settle::waiting::Reach;
use backstop_workbench::replay::{Candidate, Life, Lines, NotComparable, Step, Today};
use clap::Parser;
use serde_json::json;

use crate::dlq::runs;
use crate::error::{CommandError, Exit, Result, unreadable};
use crate::hosts::{HostPlace, NoHost, default_config};
use crate::ids::{Kind, elsewhere};
use crate::policy::replay::candidates::{named, queues};
use crate::policy::replay::size;
use crate::terminal::style::{DIM, YELLOW};
use crate::terminal::{Progress, count, joined, println};
use crate::waiting::OUT_OF_REACH;

const EXAMPLES: &str = "\
Examples:
  Why a message waits, and until when, from the hosts of this machine:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274

  Its whole life, also once it was dead-lettered, from decision records too:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl

  What a changed policy would say to each of its failures:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl --policy ./mine.wasm

  The same with the policies and limits that the hosts are configured with, from the records that they write:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 --config backstop.toml

  Records of several days and hosts, also those that gzip has compressed:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions-*.gz

Exits with 1 if no host remembers the message and no record has its id. A host remembers a message while it waits, and only if the host has seen it fail since its start. `backstop run --decisions FILE` writes records. A dead letter has its message's id in the attribute BackstopMessageId";

/// Show the life of one message: its attempts, why each failed, and what was decided
///
/// The hosts that run on this machine, or the one of --admin, are asked whether the message waits: until when, and what their active policy would say today. The records of the message are shown in their order, whichever file or host they come from: the error, the class, the decision and who made it, and when the next attempt is due. With --policy or --config, each failure also gets the answer of that policy; with --config within the limits of the queue, and without RECORDS from the file that its `decisions.record` names.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The id of the message, as logs, decision records and the other commands have it. The id of a redrive's run shows the run, as `dlq runs` does
    #[arg(value_name = "MESSAGE-ID")]
    message: String,

    /// Files with decision records, or - for standard input [default: the file of `decisions.record` in --config]
    #[arg(value_name = "RECORDS")]
    records: Vec<PathBuf>,

    /// Also show the answers of this policy: a built-in, the path of a .wasm or .wat file, a policy's folder (built first if it changed), s3://bucket/key or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL", conflicts_with = "config")]
    policy: Option<String>,

    /// A setting of the policy, such as base=2s; replaces all recorded settings; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "policy")]
    settings: Vec<(String, String)>,

    /// Also show the answers of the policies of the queues in this configuration, within their limits [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    place: HostPlace,

    /// Print the records and answers as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if Kind::of(&args.message) == Some(Kind::Run) && runs::show(&args.message, args.json)? {
        return Ok(());
    }
    let records = args.records()?;
    let bytes = size(&records)?;
    let candidate = args.candidate()?;
    let mut lines = Lines::of(records.clone());
    let reading = Progress::bytes(bytes, "records");
    let life = Life::read(&args.message, &mut lines, candidate.as_ref(), |read| {
        reading.set(read);
    })?;
    drop(reading);
    let hosts = args.place.running(args.config.as_deref())?;
    let path = ["v1", "messages", &args.message];
    let hosts = hosts.each(async |host| host.get::<HostMessages>(&path, &[]).await);
    let hosts = match hosts {
        Err(error) if error.error.is::<NoHost>() => Vec::new(),
        answered => answered?,
    };
    let is_waiting = hosts.iter().any(|(_, it)| !it.messages.is_empty());
    if life.decisions.is_empty() && !is_waiting {
        let answers: Vec<_> = hosts.iter().map(|(_, answer)| answer).collect();
        return Err(nothing_found(args, &records, &life, &answers));
    }
    if args.json {
        let hosts: Vec<_> = hosts.iter().map(|(_, messages)| messages).collect();
        println!("{}", joined(json!(life), json!({"hosts": hosts})));
        return Ok(());
    }
    let now = clock::now();
    if !life.decisions.is_empty() {
        print(&life, is_waiting, now);
    }
    for (host, answer) in &hosts {
        for message in &answer.messages {
            waiting::print(host, message, now);
        }
    }
    Ok(())
}

impl Args {
    fn config(&self) -> Option<PathBuf> {
        let given = self.config.clone();
        given.or_else(|| default_config().filter(|_| self.policy.is_none()))
    }

    /// The files of the flags, or the one that the configuration names, once there is one.
    fn records(&self) -> Result<Vec<PathBuf>> {
        let (true, Some(config)) = (self.records.is_empty(), self.config()) else {
            return Ok(self.records.clone());
        };
        let Some(Destination::File { path: file, .. }) = Config::read(&config)?.decisions else {
            return Ok(Vec::new());
        };
        let mut files = files_of(&file);
        match described(&file) {
            Ok(_) => Ok(files),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                files.pop();
                Ok(files)
            }
            Err(error) => Err(unreadable("the records", &file)(error)),
        }
    }

    fn candidate(&self) -> Result<Option<Candidate>> {
        match (&self.policy, self.config()) {
            (Some(name), _) => named(name, &self.settings).map(Some),
            (None, Some(path)) => queues(&path, None).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn nothing_found(
    args: &Args,
    records: &[PathBuf],
    life: &Life,
    hosts: &[&HostMessages],
) -> CommandError {
    let files: Vec<_> = records
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let message = one_line(&args.message);
    let asked = match hosts.len() {
        0 => "no running host was found".to_owned(),
        1 => "the running host does not remember it".to_owned(),
        hosts => format!("none of {hosts} running hosts remembers it"),
    };
    let mut text = if files.is_empty() {
        format!(
            "nothing is known of the message {message}: {asked}. It does not wait, or it failed before the host was started, or on another machine (`--admin`). Decision records know more: `backstop why {message} RECORDS`, with the file of `decisions.record` in the host's configuration"
        )
    } else {
        format!(
            "no decision record in {} is of the message {message}, and {asked}: it has not failed, or its host writes its records to another file (`decisions.record` in its configuration)",
            files.join(", "),
        )
    };
    text.push_str(&out_of_reach(hosts));
    text.push_str(
        ". If it is the id of a letter, `backstop dlq show QUEUE ID` says which message that was",
    );
    if let Some((at, why)) = &life.unreadable {
        text.push_str(&format!("; {at} names it and is {why}"));
    }
    text.push_str(&elsewhere(&args.message, &[Kind::Message]));
    Exit::Unexpected.because(text)
}

/// `. About 340 invisible messages of orders are out of reach, …`
fn out_of_reach(hosts: &[&HostMessages]) -> String {
    let mut queues: BTreeMap<&str, Vec<Reach>> = BTreeMap::new();
    for it in hosts.iter().flat_map(|host| &host.reach) {
        queues.entry(&it.queue).or_default().push(it.reach);
    }
    let missing = queues.into_iter().filter_map(|(queue, reaches)| {
        let missing = Reach::missing(reaches).filter(|number| *number > 0)?;
        Some(format!("{} of {}", count(missing), one_line(queue)))
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        ". About so many invisible messages are out of reach, {OUT_OF_REACH}: {}",
        missing.join(", ")
    )
}

fn print(life: &Life, is_waiting: bool, now: Timestamp) {
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
        let attempt = if failure.error.is_in_progress() {
            "no attempt".to_owned()
        } else {
            format!("attempt {}", failure.attempt)
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
            println!("  {YELLOW}today: {}{YELLOW:#}", one_line(&answer(today)));
        }
        println!("  {DIM}{}{DIM:#}", step.at);
    }
    println!();
    if life.left_out > 0 {
        println!("{} further records are left out", life.left_out);
    }
    if let Some((at, why)) = &life.unreadable {
        println!("{at} names the message and is {why}");
    }
    if !is_waiting && let Some(last) = life.decisions.last() {
        println!("{}", what_follows(last, now));
    }
}

/// `transient: retry in 2s (visibility), by full-jitter (3f2a91c04d17) base=2s`
fn decision(record: &DecisionRecord) -> String {
    let decision = &record.decision;
    let made = match &decision.action {
        Action::Retry { delay } => {
            let (taken, hold) = (delay.whole_seconds(), decision.hold.as_str());
            if taken == *delay {
                format!("retry in {delay} ({hold})")
            } else {
                format!("retry in {taken} ({hold}, {delay} in whole seconds)")
            }
        }
        action @ (Action::DeadLetter { .. } | Action::Discard { .. }) => action.to_string(),
    };
    let policy: Vec<_> = record
        .policy
        .iter()
        .map(|part| {
            if part.settings.is_empty() {
                part.to_string()
            } else {
                format!("{part} {}", part.settings)
            }
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
    if let Some(down_for) = record.decision.down_for {
        notes.push(format!(
            "the policy says that what is behind it is down for {down_for}"
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
        Today::Answer(answer) => match answer.class() {
            Some(class) => format!("{class}: {answer}"),
            None => answer.to_string(),
        },
        Today::Unknown(NotComparable::NotRecorded) => {
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
    let due = record
        .failure
        .failed_at
        .plus(delay.whole_seconds().as_duration());
    if now < due {
        let left = Milliseconds::from_duration(due.since(now));
        return format!("Its next attempt is due at {}, in {left}.", due.rfc3339());
    }
    format!(
        "Its next attempt was due at {}. No later failure is recorded: it succeeded, waits for a host, or is being handled.",
        due.rfc3339()
    )
}
