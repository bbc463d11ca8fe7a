//! `backstop policy replay`: recorded decisions put before another policy, and what it would decide otherwise.

mod allow;
mod bars;
mod candidates;
mod samples;
mod shown;
mod tables;

use std::path::{Path, PathBuf};

use crate::output::println;
use clap::{ArgGroup, Parser};
use serde_json::json;

use super::charts::Charts;
use super::progress::Reading;
use crate::exit::UsageError;
use allow::Share;
use backstop::config::parse_pair;
use backstop_workbench::chart::DelaysChart;
use backstop_workbench::replay::{Lines, NoRecord, Replay, Report};
use candidates::Candidates;
use shown::Shown;

const EXAMPLES: &str = "\
Examples:
  What a new policy would have decided otherwise, with a chart of the delays:
    backstop policy replay decisions.jsonl --policy ./mine.wasm --svg delays.svg

  The same policy with another setting:
    backstop policy replay decisions.jsonl --policy full-jitter --set base=5s --set cap=15m

  A changed configuration: each queue's policy on the records of that queue, and of one alone:
    backstop policy replay decisions.jsonl --config backstop.toml
    backstop policy replay decisions.jsonl --config backstop.toml --queue orders

  In CI, where at most one decision in a hundred may change:
    backstop policy replay d.jsonl --policy ./mine --against oci://ghcr.io/acme/mine:1 --allow 1%

  Compressed records:
    zcat decisions-*.gz | backstop policy replay - --policy ./mine.wasm

Ends with 0 where nothing is decided otherwise (or no more than --allow), with 8 where something is, and with 1 where no record could be compared. `backstop run --decisions FILE` writes records. How they are compared: host/docs/replay.md";

/// Replay recorded decisions: what would another policy have decided?
///
/// Each record is put before the policy as it was before the one at work then: the same failure, the same random number, the same parts of the payload, and, without --set, the same settings. Its answer is compared with the recorded one, or with that of another policy (--against): class, verdict, reason, and the delay to the millisecond. The policy that decided then says the same again, on any machine.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["policy", "config"])))]
pub(super) struct Args {
    /// Files of decision records, or - for standard input
    #[arg(required = true, value_name = "RECORDS")]
    records: Vec<PathBuf>,

    /// The policy to ask: built in; the path of a .wasm or .wat file; a policy's folder, which is built where it has changed; s3://bucket/key; or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL")]
    policy: Option<String>,

    /// Ask the policies that this configuration gives the queues, as it sets them
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A setting of the policy, such as base=2s, in place of all that the records have; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "config")]
    settings: Vec<(String, String)>,

    /// Compare with this policy, and not with what was recorded; it has the settings of the records
    #[arg(long, value_name = "NAME|PATH|URL")]
    against: Option<String>,

    /// Replay the records of this queue alone
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// How many records to show of each kind of difference
    #[arg(long, value_name = "N", default_value = "3")]
    samples: usize,

    /// The share of the compared records that may differ, such as 1%; a record that the policy newly breaks on never may
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    allow: Share,

    #[command(flatten)]
    charts: Charts,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The policy decides otherwise than was recorded, or than the other one does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Differences {
    /// More than is allowed.
    #[error("{0} of {1} decisions are different")]
    Different(usize, usize),
    /// Never allowed.
    #[error("the policy breaks on {0} of {1} failures that were answered before")]
    Broken(usize, usize),
}

/// More threads than this would wait for one another's instances.
const MOST_THREADS: usize = 16;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.charts.check()?;
    let mut lines = Lines::of(args.records.clone());
    let bytes = size(&args.records)?;
    let candidates = Candidates::of(args)?;
    let replay = Replay {
        new: &candidates.new,
        old: candidates.old.as_ref(),
        queue: args.queue.as_deref(),
        samples: args.samples,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reading = Reading::start(bytes, "records");
    let report = replay.run(&mut lines, threads.min(MOST_THREADS), |read| {
        reading.at(read);
    })?;
    drop(reading);
    if report.records == 0 {
        return Err(nothing_found(args, &report).into());
    }
    let shown = Shown {
        args,
        candidates: &candidates,
        report: &report,
    };
    if args.json {
        let found = json!({
            "policies": candidates.new.evaluated(),
            "against": candidates.old.as_ref().map(|old| old.evaluated()),
            "report": report,
        });
        println!("{found}");
    } else {
        shown.print();
    }
    let labels = [candidates.old_label(), candidates.new_label()];
    let [old, new] = labels.each_ref().map(String::as_str);
    let chart = DelaysChart {
        about: &shown.about(),
        sides: [(old, &report.old_delays), (new, &report.new_delays)],
    };
    args.charts.write(&chart, !args.json)?;
    judged(&report, args.allow)
}

/// How many bytes there are to read, where all are in files. A file that is not there is told before anything is done.
fn size(records: &[PathBuf]) -> anyhow::Result<Option<u64>> {
    let mut bytes = Some(0);
    for path in records {
        if path == Path::new("-") {
            bytes = None;
            continue;
        }
        let wrong = |why: String| {
            UsageError(format!(
                "can't read the records in {}: {why}",
                path.display()
            ))
        };
        let found = path.metadata().map_err(|error| wrong(error.to_string()))?;
        if found.is_dir() {
            return Err(
                wrong("expected a file of decision records, not a folder".to_owned()).into(),
            );
        }
        bytes = bytes
            .filter(|_| found.is_file())
            .map(|sum: u64| sum + found.len());
    }
    Ok(bytes)
}

fn nothing_found(args: &Args, report: &Report) -> UsageError {
    let files: Vec<_> = args.records.iter().map(|path| path.display()).collect();
    let files: Vec<_> = files.iter().map(ToString::to_string).collect();
    let mut told = format!("there is nothing to replay in {}", files.join(", "));
    if let Some(NoRecord { place, why }) = report.unreadable.first.first() {
        let lines = report.unreadable.lines;
        told.push_str(&format!(
            ": {lines} of its lines are no decision records; {place} is {why}"
        ));
    } else if report.other_queues.is_empty() {
        told.push_str(": it is empty");
    }
    if !report.other_queues.is_empty() {
        let queues: Vec<_> = report.other_queues.keys().map(String::as_str).collect();
        told.push_str(&format!(
            ": its records are of the queues {}",
            queues.join(", ")
        ));
    }
    UsageError(told)
}

/// How the command ends.
fn judged(report: &Report, allowed: Share) -> anyhow::Result<()> {
    let (compared, different) = (report.compared(), report.different);
    if compared == 0 {
        anyhow::bail!("none of the {} records could be compared", report.records);
    }
    match report.newly_broken() {
        0 if allowed.covers(different, compared) => Ok(()),
        0 => Err(Differences::Different(different, compared).into()),
        broken => Err(Differences::Broken(broken, compared).into()),
    }
}
