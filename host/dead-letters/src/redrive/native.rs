//! SQS's own redrive: it moves all messages of a queue, and chooses nothing.

use std::time::Duration;

use backstop_queue::{Queue, SqsQueue};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use super::entry::{Ended, Entry, Outcome};
use super::journal::Journal;
use super::ledger::Ledger;
use super::run_folder::RunFolder;
use super::setup::Summary;

/// How often the task is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The most messages a second that SQS allows.
pub const MOST_PER_SECOND: i32 = 500;

/// Lets SQS move all messages of a dead-letter queue, and waits for the end of the task. `each` gets how many it has moved and of how many. When `stop` is cancelled, the task is cancelled, too.
pub async fn run_native(
    queue: &SqsQueue,
    destination: Option<&str>,
    per_second: Option<i32>,
    folder: &RunFolder,
    who: &str,
    stop: &CancellationToken,
    mut each: impl FnMut(u64, Option<u64>),
) -> Result<Summary, RedriveError> {
    let _lock = folder.lock()?;
    folder.refresh().await?;
    let journal = folder.open_journal()?;
    let arn = queue.describe().await?.arn;
    journal
        .add(&[Entry::Started {
            at: queue.now(),
            who: who.to_owned(),
        }])
        .await?;
    let handle = match queue.start_move(&arn, destination, per_second).await {
        Ok(handle) => handle,
        Err(error) => {
            let text = Some(error.to_string());
            ended(&journal, queue, Outcome::Failed, 0, text).await?;
            return Err(error.into());
        }
    };
    let mut is_cancelled = false;
    loop {
        if stop.is_cancelled() && !is_cancelled {
            queue.cancel_move(&handle).await?;
            is_cancelled = true;
        }
        // Not dropped when it is stopped: the task has to be cancelled.
        let _ = stop.run_until_cancelled(sleep(INTERVAL)).await;
        let Some(task) = queue.latest_move(&arn).await? else {
            continue;
        };
        each(task.moved, task.about);
        if task.is_active() {
            if is_cancelled {
                sleep(INTERVAL).await;
            }
            continue;
        }
        let (outcome, text) = match task.status.as_str() {
            "COMPLETED" => (Outcome::Done, None),
            "CANCELLED" => (Outcome::Interrupted, None),
            status => {
                let why = task.failure.unwrap_or_else(|| status.to_owned());
                (Outcome::Failed, Some(why))
            }
        };
        return ended(&journal, queue, outcome, task.moved, text).await;
    }
}

async fn ended(
    journal: &Journal,
    queue: &SqsQueue,
    outcome: Outcome,
    moved: u64,
    text: Option<String>,
) -> Result<Summary, RedriveError> {
    let ended = Ended::before_steps(queue.now(), outcome, text);
    let entries = [Entry::Native { moved }, Entry::Ended(ended.clone())];
    journal.add(&entries).await?;
    let mut ledger = Ledger::default();
    entries.iter().for_each(|entry| ledger.add(entry));
    Ok(Summary::new(ended, &ledger))
}
