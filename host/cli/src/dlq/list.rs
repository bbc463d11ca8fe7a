//! `backstop dlq list`: what died, grouped by its cause.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::text::{of_folder, one_line};
use backstop_dead_letters::{By, Filters, Groups, Letter, Seen};
use clap::Parser;
use serde_json::{Value, json};

use super::filters::FilterArgs;
use super::groups;
use super::letter;
use super::queue::QueueArgs;
use super::reading::{self, ReadingArgs, STOPPING};
use crate::error::{Context, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{columns, count, cut, eprintln, println, short, wrapped};
use crate::time::ago;

const EXAMPLES: &str = "\
Examples:
  What died, by reason and code of the error:
    backstop dlq list https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dead

  The same by the name of the queue in backstop.toml, and by what the errors' texts have in common:
    backstop dlq list orders --by fingerprint

  Whose orders died of a throttled service in the last two hours:
    backstop dlq list orders --class throttled --since 2h --by /order/customer

  Each letter on a line, and the ids in a file for `triage`, `redrive` and `archive`:
    backstop dlq list orders --code 'HTTP 5*' --letters --save ids.jsonl

Reading is receiving: each letter is invisible to others until the command ends, and its receive count goes up by one. Of a FIFO queue, SQS shows no more than the first ten letters of a group, and the group is blocked for as long.

It needs sqs:ReceiveMessage, sqs:ChangeMessageVisibility, sqs:GetQueueAttributes and, for an ARN, sqs:GetQueueUrl.";

/// List dead letters, grouped by what they have in common
///
/// Shows how many letters died of what, since when, and the id of one of each group; three with --json. What SQS's own redrive policy has moved has no reason: nobody has recorded one.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,

    /// What to group by: reason, code, class, policy, fingerprint, origin, source, or a JSON pointer into the body such as /order/customer; may be repeated [default: reason and code]
    #[arg(long, value_name = "WHAT")]
    by: Vec<By>,

    /// Show each letter on a line instead of groups
    #[arg(long, conflicts_with = "by")]
    letters: bool,

    /// Write the ids of the letters to this file, for --ids of other commands; the file is replaced
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Print JSON: one object, or with --letters one for each letter
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    reading: ReadingArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let filters = args.filters.filters()?;
    let mut saved = args.save.as_deref().map(Saved::create).transpose()?;
    let stop = stop_on_signal(STOPPING)?;
    let opened = args.queue.open().await?;
    let mut listings = Vec::new();
    let mut failure = None;
    for queue in &opened.queues {
        let mut listing = Listing::new(&args, queue.url());
        let reading = args.reading.read(queue, &stop, |letter| {
            if filters.matches(&letter) {
                listing.add(&letter, &args);
                if let Some(saved) = &mut saved {
                    failure = failure.take().or(saved.add(&letter, queue.url()).err());
                }
            }
        });
        match reading.await {
            Ok(seen) => listings.push((listing, seen)),
            Err(error) => failure = failure.or(Some(error)),
        }
        if failure.is_some() {
            break;
        }
    }
    // What was read is shown, even if another queue can't be.
    if failure.is_none() || !args.json {
        print_all(&args, &filters, &listings);
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if let Some(saved) = saved {
        saved.finish()?;
    }
    let seen = listings.iter().map(|(_, seen)| seen);
    reading::whole(seen, "there may be more letters than those listed")
}

/// Prints what was read of each queue, after the sum of all.
fn print_all(args: &Args, filters: &Filters, listings: &[(Listing, Seen)]) {
    if args.json {
        if !args.letters {
            let queues = listings.iter();
            let queues: Value = queues
                .map(|(listing, seen)| listing.as_json(seen))
                .collect();
            println!("{}", json!({"version": 1, "queues": queues}));
            return;
        }
    } else if !args.letters && listings.len() > 1 {
        let all: usize = listings.iter().map(|(_, seen)| seen.letters).sum();
        let matching = listings.iter().map(|(listing, _)| listing.matching).sum();
        println!(
            "{} seen in {} queues{}\n",
            reading::letters(all),
            listings.len(),
            fitting(filters, matching)
        );
    }
    for (number, (listing, seen)) in listings.iter().enumerate() {
        let summary = listing.summary(filters, seen);
        if args.letters {
            // The letters are on standard output, for other programs.
            eprintln!("{summary}");
            continue;
        }
        if number > 0 {
            println!();
        }
        println!("{}", wrapped(&summary, 2, columns()));
        groups::print(&listing.groups, listing.now);
    }
}

/// How many letters fit the filters, if there are any.
fn fitting(filters: &Filters, matching: usize) -> String {
    if filters.is_empty() {
        return String::new();
    }
    format!("; {} fit the filters", count(matching))
}

/// The letters of one queue.
struct Listing {
    queue: String,
    groups: Groups,
    matching: usize,
    now: Timestamp,
}

impl Listing {
    fn new(args: &Args, queue: &str) -> Self {
        let by = match args.by.as_slice() {
            [] => vec![By::Reason, By::Code],
            by => by.to_vec(),
        };
        Self {
            queue: queue.to_owned(),
            groups: Groups::new(by, groups::MOST),
            matching: 0,
            now: clock::now(),
        }
    }

    /// Counts a letter, or prints it.
    fn add(&mut self, letter: &Letter, args: &Args) {
        self.matching += 1;
        if !args.letters {
            self.groups.add(letter);
        } else if args.json {
            println!("{}", letter::as_json(letter, &self.queue, false));
        } else {
            println!("{}", cut(&line(letter, self.now), columns()));
        }
    }

    /// What was seen, with the total first.
    fn summary(&self, filters: &Filters, seen: &Seen) -> String {
        let matching = fitting(filters, self.matching);
        format!("{}{matching}", reading::summary(seen, Some(&self.queue)))
    }

    fn as_json(&self, seen: &Seen) -> Value {
        let listing = json!({
            "queue": self.queue,
            "matching": self.matching,
            "groups": groups::as_json(&self.groups),
            "ungrouped": self.groups.ungrouped(),
        });
        reading::as_json(seen, listing)
    }
}

/// A letter on one line.
fn line(letter: &Letter, now: Timestamp) -> String {
    let error = letter.error.as_ref().map(ToString::to_string);
    let why = match (&letter.reason, error) {
        (Some(reason), Some(error)) if !reason.contains(&error) => format!("{reason} ({error})"),
        (Some(reason), _) => reason.clone(),
        (None, Some(error)) => error,
        (None, None) => letter.fingerprint().text().to_owned(),
    };
    let class = letter.class.as_deref().unwrap_or("-");
    format!(
        "{}  {:>8}  {:<9}  {}",
        one_line(&letter.original_id),
        ago(letter.last_alive(), now),
        short(class, 20),
        short(&why, 160)
    )
}

/// A file of ids for other commands.
pub(super) struct Saved {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Saved {
    /// Creates or replaces the file. Others can't read it.
    pub(super) fn create(path: &std::path::Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(of_folder)
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self {
            file: BufWriter::new(file),
            path: path.to_owned(),
        })
    }

    /// Adds the id of a letter.
    pub(super) fn add(&mut self, letter: &Letter, queue: &str) -> Result<()> {
        let line =
            json!({"id": letter.message.id, "queue": queue, "original-id": letter.original_id});
        writeln!(self.file, "{line}")
            .with_context(|| format!("can't write {}", self.path.display()))
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("can't write {}", self.path.display()))
    }
}
