//! `backstop dlq restore`: archived letters back into a queue.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use backstop_core::text::{chain, one_line};
use backstop_dead_letters::{
    ArchiveError, ArchivedLetter, ArchivedLetters, Filters, Restoring, read_ids, restore,
};
use backstop_host::config::parse_endpoint;
use backstop_queue::Connections;
use clap::Parser;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::filters::FilterArgs;
use super::queue::address;
use super::reading::{letters, unusable};
use super::s3::Prefix;
use crate::error::{CommandError, Context, Exit, Result, unreadable};
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, println};

/// How many refused letters are named.
const NAMED: usize = 10;

/// The most bytes of the ids of letters that were put back before: those of 25 million letters.
const JOURNAL_BYTES: usize = 1 << 30;

/// From so many bytes that wait for full requests, all of them are sent.
const WAITING_BYTES: usize = 64 << 20;

/// What is logged after the first signal.
const STOPPING: &str = "stopping: waiting for the requests in flight; the same command goes on later; a second signal stops at once";

const EXAMPLES: &str = "\
Examples:
  Put back what was archived, into the dead-letter queues that the letters come from:
    backstop dlq restore invalid.jsonl

  Some of it, into another queue:
    backstop dlq restore invalid.jsonl --text c-7 --to https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dead-2

  From S3, all objects whose keys start like this:
    backstop dlq restore s3://acme-dead-letters/orders/

The ids of the letters that were put back are in a file: that of the archive with `.restored` at its end, or --progress. If this command is stopped or killed, the same command goes on; the letters of the requests that were in flight at a kill may then be in the queue twice. A letter that is in the archive twice is put back once.

A letter that is put back is a new message: SQS gives it a new id and a new time. When it died is kept in the attribute BackstopDied, if there is space. What only SQS knew of a letter that its own redrive policy had moved (the id, the time of the first send, the queue) goes into the attributes BackstopMessageId, BackstopFirstSent and BackstopSource.

It needs sqs:SendMessage, sqs:GetQueueAttributes and sqs:GetQueueUrl; and for S3, s3:GetObject and s3:ListBucket.

Exits with 5 if a queue refused letters.";

/// Put archived letters back into their dead-letter queue, or into another queue
///
/// The archive stays as it is.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The archive: a file, or s3://bucket/prefix
    #[arg(value_name = "FILE|URL")]
    archive: String,

    /// The queue to put them into, by its URL or ARN [default: the one that each letter comes from]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    /// The file with the ids of the letters that were put back [default: the archive's name and .restored]
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,

    /// Put back again what was put back before
    #[arg(long)]
    again: bool,

    /// Only count the letters
    #[arg(long)]
    dry_run: bool,

    /// Use this endpoint in place of the region's own
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    endpoint_url: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filters: FilterArgs,
}

/// A restore under way.
struct Run<'a> {
    args: &'a Args,
    filters: Filters,
    connections: Connections,
    stop: CancellationToken,
    targets: BTreeMap<String, Restoring>,
    journal: Option<Journal>,
    /// The ids of letters that are in a queue again, or are about to be.
    known: HashSet<String>,
    /// Letters that wait for a full request, by their queue.
    waiting: BTreeMap<String, Vec<ArchivedLetter>>,
    /// Their bytes.
    bytes: usize,
    progress: Progress,
    counts: Counts,
    /// A signal came before all letters were sent.
    is_cut: bool,
}

#[derive(Default)]
struct Counts {
    restored: usize,
    before: usize,
    twice: usize,
    refused: Vec<(String, String)>,
    /// The files and lines that were skipped, because they are incomplete.
    incomplete: Vec<(String, u64)>,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let stop = stop_on_signal(STOPPING)?;
    let connections = Connections::new(args.endpoint_url.clone());
    let prefix = Prefix::parse(&args.archive, &connections).await?;
    // Before the journal, which would be created next to no archive.
    let file = match &prefix {
        Some(_) => None,
        None => {
            let letters = ArchivedLetters::open(Path::new(&args.archive));
            Some(letters.map_err(unusable_archive)?)
        }
    };
    let path = args.progress.clone().unwrap_or_else(|| match &prefix {
        Some(_) => PathBuf::from(format!(
            "{}.restored",
            args.archive.trim_start_matches("s3://").replace('/', "-")
        )),
        None => PathBuf::from(format!("{}.restored", args.archive)),
    });
    let (before, journal) = if args.dry_run {
        (Journal::read(&path)?, None)
    } else {
        let (known, journal) = Journal::open(&path)?;
        (known, Some(journal))
    };
    let mut run = Run {
        args: &args,
        filters: args.filters.filters()?,
        connections,
        stop,
        targets: BTreeMap::new(),
        journal,
        known: HashSet::new(),
        waiting: BTreeMap::new(),
        bytes: 0,
        progress: Progress::counting("letters put back"),
        counts: Counts::default(),
        is_cut: false,
    };
    let before = if args.again { HashSet::new() } else { before };
    if let Some(letters) = file {
        run.all(&args.archive, letters, &before).await?;
    }
    if let Some(prefix) = prefix {
        for key in prefix.keys().await? {
            run.all(&key, prefix.read(&key).await?, &before).await?;
        }
    }
    run.finish(&path).await
}

fn unusable_archive(error: ArchiveError) -> CommandError {
    match error {
        ArchiveError::Io { path, cause } => unreadable("the archive", &path)(cause),
        error @ (ArchiveError::Busy(_) | ArchiveError::Line { .. }) => {
            Exit::Usage.because(chain(&error))
        }
    }
}

impl Run<'_> {
    /// Restores letters, as far as they fit and were not restored before.
    async fn all(
        &mut self,
        name: &str,
        mut letters: ArchivedLetters<impl BufRead>,
        before: &HashSet<String>,
    ) -> Result<()> {
        for letter in letters.by_ref() {
            let letter = letter.map_err(unusable_archive)?;
            if self.stop.is_cancelled() {
                self.is_cut = true;
                return Ok(());
            }
            if !self.filters.is_empty() && !self.filters.matches(&letter.letter()) {
                continue;
            }
            if before.contains(&letter.id) {
                self.counts.before += 1;
            } else if !self.known.insert(letter.id.clone()) {
                self.counts.twice += 1;
            } else if self.args.dry_run {
                self.counts.restored += 1;
            } else {
                let queue = self.args.to.as_ref().unwrap_or(&letter.queue).clone();
                self.bytes += letter.size();
                let waiting = self.waiting.entry(queue.clone()).or_default();
                waiting.push(letter);
                if waiting.len() >= Restoring::at_once() {
                    self.send(&queue).await?;
                } else if self.bytes >= WAITING_BYTES {
                    self.send_all().await?;
                }
            }
        }
        let incomplete = letters.incomplete().map(|line| (name.to_owned(), line));
        self.counts.incomplete.extend(incomplete);
        Ok(())
    }

    /// Sends what waits for a queue.
    async fn send(&mut self, queue: &str) -> Result<()> {
        let letters = self.waiting.remove(queue).unwrap_or_default();
        let bytes: usize = letters.iter().map(ArchivedLetter::size).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        if !self.targets.contains_key(queue) {
            let opened = address(&self.connections, queue).await;
            let opened = match opened {
                Ok(opened) => Restoring::open(opened).await.map_err(|it| unusable(&it)),
                Err(error) => Err(error),
            };
            let opened = opened.with_context(|| {
                format!(
                    "can't put letters back into {}; --to names another queue",
                    one_line(queue)
                )
            })?;
            self.targets.insert(queue.to_owned(), opened);
        }
        let Some(target) = self.targets.get_mut(queue) else {
            return Ok(());
        };
        let sent = restore(target, &letters, &self.stop).await;
        if let Some(journal) = &mut self.journal {
            journal.add(&sent.restored)?;
        }
        self.is_cut |= sent.restored.len() + sent.refused.len() < letters.len();
        self.progress.add(sent.restored.len());
        self.counts.restored += sent.restored.len();
        self.counts.refused.extend(sent.refused);
        Ok(())
    }

    /// Sends what waits for any queue.
    async fn send_all(&mut self) -> Result<()> {
        let queues: Vec<_> = self.waiting.keys().cloned().collect();
        for queue in queues {
            self.send(&queue).await?;
        }
        Ok(())
    }

    async fn finish(mut self, journal: &Path) -> Result<()> {
        self.send_all().await?;
        let Self {
            args,
            counts,
            is_cut,
            ..
        } = self;
        if args.json {
            println!("{}", as_json(args, &counts));
        } else {
            print(args, &counts, journal);
        }
        if counts.refused.is_empty() {
            return if is_cut {
                Err(Exit::Interrupted.because(
                    "interrupted: not all letters were put back; the same command goes on",
                ))
            } else {
                Ok(())
            };
        }
        let refused = counts.refused.iter().take(NAMED);
        let refused: Vec<_> = refused
            .map(|(id, why)| one_line(&format!("{id}: {why}")))
            .collect();
        Err(Exit::Queue.because(format!(
            "{} refused, and in the archive only: {}",
            letters(counts.refused.len()),
            refused.join("; ")
        )))
    }
}

fn as_json(args: &Args, counts: &Counts) -> Value {
    let refused = counts.refused.iter();
    let refused: Vec<_> = refused
        .map(|(id, why)| json!({"id": id, "reason": why}))
        .collect();
    json!({
        "version": 1,
        "dry-run": args.dry_run,
        "restored": counts.restored,
        "restored-before": counts.before,
        "duplicate-lines": counts.twice,
        "refused": refused,
        "incomplete": counts
            .incomplete
            .iter()
            .map(|(file, line)| json!({"file": file, "line": line}))
            .collect::<Vec<_>>(),
    })
}

fn print(args: &Args, counts: &Counts, journal: &Path) {
    let would = if args.dry_run { "would be " } else { "" };
    println!("{} {would}put back", letters(counts.restored));
    if counts.before > 0 {
        println!(
            "{} put back before, as {} says: --again puts them back once more",
            letters(counts.before),
            one_line(&journal.display().to_string())
        );
    }
    if counts.twice > 0 {
        println!(
            "{} in the archive more than once, and put back once",
            letters(counts.twice)
        );
    }
    for (file, line) in &counts.incomplete {
        println!(
            "{}, line {line}: it is incomplete, and was skipped. If `archive` was killed while it wrote the line, its letter is still in its queue; if the file was cut off later, the letter is lost",
            one_line(file)
        );
    }
}

/// The ids of the letters that were put back.
struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// The ids in the file, if it is there.
    fn read(path: &Path) -> Result<HashSet<String>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashSet::new()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        read_ids(std::io::BufReader::new(file), JOURNAL_BYTES)
            .map_err(|error| Exit::Usage.because(chain(&error)))
            .with_context(|| path.display().to_string())
    }

    /// Opens or creates the file.
    fn open(path: &Path) -> Result<(HashSet<String>, Self)> {
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("can't write {}", path.display()))?;
        file.try_lock().map_err(|_| {
            Exit::Usage.because(format!(
                "another command is restoring with {}",
                path.display()
            ))
        })?;
        // Only now: another command could have added ids before.
        let known = Self::read(path)?;
        let path = path.to_owned();
        Ok((known, Self { file, path }))
    }

    /// Adds ids. They are on disk when this returns.
    fn add(&mut self, ids: &[String]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        // The last line may have been cut off by a full disk: a new line keeps ids apart.
        let lines = format!("\n{}\n", ids.join("\n"));
        let written = self.file.write_all(lines.as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("can't write {}", self.path.display()))
    }
}
