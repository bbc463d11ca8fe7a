//! `backstop dlq archive`: letters to a file or to S3, and then out of their queue.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::text::{chain, one_line};
use backstop_dead_letters::{
    ArchiveError, ArchiveFile, Archived, ArchivingError, BatchSize, Filters, Reader, Seen, archive,
};
use backstop_queue::{Connections, Queue};
use backstop_versions::BucketError;
use clap::{ArgGroup, Parser};
use indicatif::HumanBytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::filters::FilterArgs;
use super::queue::QueueArgs;
use super::reading::{self, ReadingArgs, STOPPING, letters};
use super::s3::Prefix;
use crate::error::{Context, Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, println};

/// What is written to a file and synced together.
const FILE_BATCH: BatchSize = BatchSize {
    letters: 500,
    bytes: 8 << 20,
    wait: Duration::from_secs(2),
};

/// What becomes one object of S3.
const OBJECT_BATCH: BatchSize = BatchSize {
    letters: 5_000,
    bytes: 8 << 20,
    wait: Duration::from_secs(15),
};

const EXAMPLES: &str = "\
Examples:
  Keep what can't succeed any more, and take it out of the queue:
    backstop dlq archive orders --to invalid.jsonl --class permanent

  Everything that died before last week, in S3:
    backstop dlq archive orders --to s3://acme-dead-letters/orders/ --until 7d

  How many letters that would be:
    backstop dlq archive orders --to old.jsonl --until 7d --dry-run

  Put them back:
    backstop dlq restore invalid.jsonl

A letter is deleted from the queue only after its line is on disk, or after S3 has accepted its object. If this command is killed in between, the letter is in both; the next `archive` writes it again, and `restore` knows a letter by its id and puts it back once. To add to a file is safe: an incomplete last line is removed first, since its letter was not deleted.

Each line has the message as SQS delivered it: body, attributes, group, and times. Only its owner can read the file.

It needs sqs:ReceiveMessage, sqs:ChangeMessageVisibility, sqs:DeleteMessage, sqs:GetQueueAttributes and, for S3, s3:PutObject.

Exits with 5 if letters could not be stored or deleted.";

/// Write dead letters to JSON lines, then delete them from the queue
///
/// `backstop dlq restore` puts them back. There is no command that deletes letters without keeping them.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("chosen").multiple(true).required(true).args(["all", "reasons", "codes", "classes", "policies", "origins", "sources", "fingerprints", "texts", "values", "since", "until", "ids", "ids_file"])))]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,

    /// The file, which is created or added to; or s3://bucket/prefix, for objects whose keys start with the prefix
    #[arg(long, value_name = "FILE|URL")]
    to: String,

    /// All letters
    #[arg(long)]
    all: bool,

    /// Only count the letters
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    reading: ReadingArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let filters = args.filters.filters()?;
    let stop = stop_on_signal(STOPPING)?;
    let opened = args.queue.open().await?;
    let mut results = Vec::new();
    for queue in &opened.queues {
        let (archived, seen) = if args.dry_run {
            count(&args, queue, &filters, &stop).await?
        } else {
            one(&args, queue, &filters, &opened.connections, &stop).await?
        };
        if !args.json {
            println!("{}", reading::summary(&seen, Some(queue.url())));
            print(&args, &archived);
        }
        results.push((queue.url().to_owned(), archived, seen));
    }
    if args.json {
        let queues = results.iter().map(|(queue, archived, seen)| {
            let archived = json!({"queue": queue, "archived": archived.archived, "bytes": archived.bytes, "not-deleted": archived.not_deleted});
            reading::as_json(seen, archived)
        });
        let queues: Vec<_> = queues.collect();
        let (dry_run, to) = (args.dry_run, &args.to);
        let result = json!({"version": 1, "dry-run": dry_run, "to": to, "queues": queues});
        println!("{result}");
    }
    let left = results
        .iter()
        .find(|(_, archived, _)| archived.not_deleted > 0);
    match left {
        None => reading::whole(
            results.iter().map(|it| &it.2),
            "letters that were not read are still in the queue",
        ),
        Some((_, archived, _)) => Err(Exit::Queue.because(format!(
            "{} archived but still in the queue, because deleting failed: {}",
            letters(results.iter().map(|it| it.1.not_deleted).sum::<usize>()),
            one_line(archived.why.as_deref().unwrap_or_default())
        ))),
    }
}

fn print(args: &Args, archived: &Archived) {
    let (to, number) = (one_line(&args.to), letters(archived.archived));
    if args.dry_run {
        println!("{number} would be archived in {to}")
    } else {
        println!(
            "{number} ({}) archived in {to} and deleted from the queue",
            HumanBytes(archived.bytes)
        )
    }
}

/// What would be archived.
async fn count(
    args: &Args,
    queue: &Arc<dyn Queue>,
    filters: &Filters,
    stop: &CancellationToken,
) -> Result<(Archived, Seen)> {
    let mut archived = Archived::default();
    let reading = args.reading.read(queue, stop, |letter| {
        archived.archived += usize::from(filters.matches(&letter));
    });
    let seen = reading.await?;
    Ok((archived, seen))
}

/// Why letters could not be stored.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error(transparent)]
    File(#[from] ArchiveError),
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

/// Archives the letters of one queue.
async fn one(
    args: &Args,
    queue: &Arc<dyn Queue>,
    filters: &Filters,
    connections: &Connections,
    stop: &CancellationToken,
) -> Result<(Archived, Seen)> {
    let to = Prefix::parse(&args.to, connections).await?;
    let mut file = match &to {
        Some(_) => None,
        None => Some(
            ArchiveFile::open(Path::new(&args.to))
                .map_err(|error| Exit::Usage.because(chain(&error)))?,
        ),
    };
    let batch = if to.is_some() {
        OBJECT_BATCH
    } else {
        FILE_BATCH
    };
    let run = Prefix::run_name(queue.url());
    let mut number = 0;
    let store = async |lines: Vec<String>| {
        if let Some(file) = &mut file {
            tokio::task::block_in_place(|| file.store(&lines))?;
        }
        if let Some(prefix) = &to {
            number += 1;
            prefix.store(&run, number, &lines).await?;
        }
        Ok::<_, StoreError>(())
    };
    let progress = Progress::counting("letters archived");
    let reader = Reader::open(Arc::clone(queue), args.reading.options()).await;
    let mut reader = reader.with_context(|| one_line(queue.url()))?;
    let archived = archive(&mut reader, filters, batch, stop, store, |more| {
        progress.add(more);
    });
    let archived = archived.await;
    let seen = reader.release().await;
    drop(progress);
    match archived {
        Ok(archived) => Ok((archived, seen)),
        Err(ArchivingError::Read(error)) => Err(error.into()),
        Err(error @ ArchivingError::Store(_)) => {
            Err(Exit::Queue.because(chain(&error))).with_context(|| one_line(&args.to))
        }
    }
}
