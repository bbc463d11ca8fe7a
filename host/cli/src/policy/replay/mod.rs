//! `backstop policy replay`: replays recorded decisions with another policy and shows what differs.
//!
//! [`args`] has the flags, [`candidates`] loads the policies, and `backstop_workbench::replay` compares them. [`summary`], [`tables`] and [`samples`] print the [`comparison`], or [`markdown`] all of it.

mod args;
pub(crate) mod candidates;
mod comparison;
mod markdown;
mod samples;
mod summary;
mod tables;

use std::path::{Path, PathBuf};

use backstop_core::share::Share;
use backstop_files::regular_file::described;
use backstop_workbench::chart::DelaysChart;
use backstop_workbench::default_threads;
use backstop_workbench::replay::{Lines, NoRecord, Replay, Report};
use serde_json::json;

use crate::error::{CommandError, Exit, Result, unreadable_input};
use crate::terminal::{Progress, println};
use candidates::Candidates;
use comparison::Comparison;

pub(super) use args::Args;
use args::Format;

pub(super) fn run(args: &Args) -> Result<()> {
    args.charts.check()?;
    let mut lines = Lines::of(args.records.clone());
    let bytes = size(&args.records)?;
    let candidates = Candidates::load(args)?;
    let replay = Replay {
        new: &candidates.new,
        old: candidates.old.as_ref(),
        queue: args.queue.as_deref(),
        samples: args.samples,
    };
    let reading = Progress::bytes(bytes, "records");
    let report = replay.run(&mut lines, default_threads(), |read| {
        reading.set(read);
    })?;
    drop(reading);
    if report.records == 0 {
        return Err(nothing_found(args, &report));
    }
    let comparison = Comparison {
        args,
        candidates: &candidates,
        report: &report,
    };
    if args.format == Format::Github {
        println!("{}", markdown::comment(&comparison).trim_end());
    } else if args.is_json() {
        let result = json!({
            "policies": candidates.new.evaluated(),
            "against": candidates.old.as_ref().map(|old| old.evaluated()),
            "report": report,
        });
        println!("{result}");
    } else {
        summary::print(&comparison);
        tables::print(&report, comparison.old_name());
        samples::print(&comparison);
    }
    let labels = [candidates.old_label(), candidates.new_label()];
    let [old, new] = labels.each_ref().map(String::as_str);
    let chart = DelaysChart {
        about: &comparison.about(),
        sides: [(old, &report.old_delays), (new, &report.new_delays)],
    };
    args.charts.write(&chart, args.is_for_people())?;
    check_differences(&report, args.allow)
}

/// The total number of bytes, if all records are in regular files. Fails before any work if one is missing.
pub(crate) fn size(records: &[PathBuf]) -> Result<Option<u64>> {
    let mut bytes = Some(0);
    for path in records {
        if path == Path::new("-") {
            bytes = None;
            continue;
        }
        let expected = "expected decision records, which a host writes to the file of its setting decisions.record";
        let metadata = described(path).map_err(unreadable_input("the records", path, expected))?;
        bytes = bytes
            .filter(|_| metadata.is_file())
            .map(|sum: u64| sum + metadata.len());
    }
    Ok(bytes)
}

fn nothing_found(args: &Args, report: &Report) -> CommandError {
    let files: Vec<_> = args.records.iter().map(|path| path.display()).collect();
    let files: Vec<_> = files.iter().map(ToString::to_string).collect();
    let mut text = format!("there is nothing to replay in {}", files.join(", "));
    if let Some(NoRecord { place, why }) = report.unreadable.first.first() {
        let lines = report.unreadable.lines;
        text.push_str(&format!(
            ": {lines} of its lines are not decision records; {place} is {why}"
        ));
    } else if report.other_queues.is_empty() {
        text.push_str(": it is empty");
    }
    if !report.other_queues.is_empty() {
        let queues: Vec<_> = report.other_queues.keys().map(String::as_str).collect();
        text.push_str(&format!(
            ": its records are from the queues {}",
            queues.join(", ")
        ));
    }
    Exit::Usage.because(text)
}

/// Fails if more decisions differ than `--allow` permits.
fn check_differences(report: &Report, allowed: Share) -> Result<()> {
    let (compared, different) = (report.compared(), report.different);
    if compared == 0 {
        return Err(Exit::Unexpected.because(format!(
            "none of the {} records could be compared",
            report.records
        )));
    }
    let is_allowed = !allowed.is_exceeded(different as u64, compared as u64);
    match report.newly_broken() {
        0 if is_allowed => Ok(()),
        0 => {
            Err(Exit::Differences
                .because(format!("{different} of {compared} decisions are different")))
        }
        broken => Err(Exit::Differences.because(format!(
            "the policy breaks on {broken} of {compared} failures that were answered before"
        ))),
    }
}
