//! The third part of the output: samples of decisions that differ, and a command that explains one of them.

use backstop_core::text::one_line;
use backstop_workbench::replay::{Change, LineRef, RecordedAnswer, Sample};

use super::args::Args;
use super::comparison::Comparison;
use crate::policy::failure_args::describe;
use crate::policy::quoted;
use crate::terminal::style::{BOLD, DIM};
use crate::terminal::{counted, println, short};

/// The longest line, in characters. Longer texts of errors and policies are cut.
const MAX_LINE: usize = 200;

/// Prints the samples of each kind of difference, the most severe kind first.
pub(super) fn print(comparison: &Comparison<'_>) {
    let groups = &comparison.report.changes;
    for group in groups.iter().filter(|group| !group.samples.is_empty()) {
        let records = counted(group.records, "record");
        let change = one_line(&group.change.to_string());
        println!("\n{BOLD}{change}{BOLD:#}{DIM}, {records}{DIM:#}");
        for sample in &group.samples {
            let failure = short(&describe(&sample.failure), MAX_LINE);
            println!(
                "  {}  {DIM}{}{DIM:#}",
                sample.place,
                one_line(&sample.failure.message_id)
            );
            println!("    {failure}");
            println!("    {:<9} {}", comparison.old_name(), words(&sample.old));
            println!("    {:<9} {}", "new", words(&sample.new));
        }
    }
    let first = groups.iter().find_map(|group| group.samples.first());
    if let Some(command) = first.and_then(|sample| explaining(comparison.args, sample)) {
        println!("\n{:<10} {command}", "explain");
    }
}

/// An answer in a line.
fn words(answer: &RecordedAnswer) -> String {
    let text = match answer.class().map(Change::class_name) {
        Some(class) => format!("{class}, {answer}"),
        None => format!("broken: {answer}"),
    };
    short(&text, MAX_LINE)
}

/// The command that explains the new policy's answer to a record. None if the record was not read from a file or no policy is named.
fn explaining(args: &Args, sample: &Sample) -> Option<String> {
    let policy = args.policy.as_ref()?;
    let LineRef { file, line } = &sample.place;
    if !args
        .records
        .iter()
        .any(|path| path.is_file() && *path.display().to_string() == **file)
    {
        return None;
    }
    let settings = sample.policy.iter().flat_map(|part| &part.settings);
    let settings =
        settings.flat_map(|(name, value)| ["--set".to_owned(), format!("{name}={value}")]);
    let words = ["backstop", "policy", "run", policy.as_str()].map(str::to_owned);
    let words = words
        .into_iter()
        .chain(settings)
        .chain(["--failure".to_owned(), "-".to_owned()]);
    let line = format!("{line}p");
    let sed = ["sed", "-n", line.as_str(), file].map(str::to_owned);
    Some(format!("{} | {}", quoted(sed), quoted(words)))
}
