//! Some of the records that are decided otherwise, printed, and how to look closer at one.

use crate::output::println;
use anstyle::Style;
use indicatif::HumanCount;

use super::Args;
use super::shown::Shown;
use crate::policy::run::described;
use backstop_core::text::{cut, one_line};
use backstop_workbench::replay::{Change, LineRef, RecordedAnswer, Sample};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// A text of the source of an error, or of a policy, is cut to so many bytes.
const TEXT: usize = 200;

/// The samples of each kind of difference, the gravest kind first.
pub(super) fn print(shown: &Shown<'_>) {
    let groups = &shown.report.changes;
    for group in groups.iter().filter(|group| !group.samples.is_empty()) {
        let of = match HumanCount(group.records as u64) {
            HumanCount(1) => "1 record".to_owned(),
            records => format!("{records} records"),
        };
        let change = one_line(&group.change.to_string());
        println!("\n{BOLD}{change}{BOLD:#}{DIM}, {of}{DIM:#}");
        for sample in &group.samples {
            let asked = short(&described(&sample.failure));
            println!(
                "  {}  {DIM}{}{DIM:#}",
                sample.place,
                one_line(&sample.failure.message_id)
            );
            println!("    {asked}");
            println!("    {:<9} {}", shown.old(), words(&sample.old));
            println!("    {:<9} {}", "new", words(&sample.new));
        }
    }
    let first = groups.iter().find_map(|group| group.samples.first());
    if let Some(command) = first.and_then(|sample| closer(shown.args, sample)) {
        println!("\n{:<10} {command}", "closer");
    }
}

/// An answer in a line.
fn words(said: &RecordedAnswer) -> String {
    let class = said.class().map(Change::class_name).unwrap_or_default();
    let text = match said {
        RecordedAnswer::Retry {
            delay: Some(delay), ..
        } => format!("{class}, retry in {delay}"),
        RecordedAnswer::Retry { delay: None, .. } => {
            format!("{class}, retry; a bound of the queue's came before")
        }
        RecordedAnswer::DeadLetter { reason, .. } => format!("{class}, dead-letter: {reason}"),
        RecordedAnswer::Discard { reason, .. } => format!("{class}, discard: {reason}"),
        RecordedAnswer::Broken { cause, .. } => format!("broken: the policy {cause}"),
    };
    short(&text)
}

fn short(text: &str) -> String {
    let mut line = one_line(text);
    if line.len() > TEXT {
        cut(&mut line, TEXT);
        line.push('…');
    }
    line
}

/// The command that explains the new policy's answer to a record; none where the record was not read from a file, or no policy is named.
fn closer(args: &Args, sample: &Sample) -> Option<String> {
    let policy = args.policy.as_ref()?;
    let LineRef { file, line } = &sample.place;
    if !args
        .records
        .iter()
        .any(|path| path.is_file() && *path.display().to_string() == **file)
    {
        return None;
    }
    let settings = sample.asked.iter().flat_map(|part| &part.settings);
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

/// Words as a shell takes them.
fn quoted(words: impl IntoIterator<Item = String>) -> String {
    let quoted = words.into_iter().map(|word| {
        shlex::try_quote(&word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned())
    });
    quoted.collect::<Vec<_>>().join(" ")
}
