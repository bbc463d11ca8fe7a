//! Puts archived letters back into a queue.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_queue::{BATCH_BYTES, BATCH_ENTRIES};
use backstop_queue::{Description, Outgoing, Queue};
use futures_util::stream::{self, StreamExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::line::ArchivedLetter;

/// The most batches under way at the same time.
const REQUESTS: usize = 8;

/// How often a letter is tried.
const TRIES: u32 = 5;

/// A queue into which letters are put back.
#[derive(Debug)]
pub struct Restoring {
    queue: Arc<dyn Queue>,
    description: Description,
    /// The groups of a FIFO queue in which a letter was refused: those behind it stay in the archive, too.
    refused: HashSet<Option<String>>,
}

/// The result of one group of letters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The ids of the letters that are in the queue again.
    pub restored: Vec<String>,
    /// The ids of those that it refused, with the reason.
    pub refused: Vec<(String, String)>,
}

impl Restoring {
    /// Opens a queue. Sends nothing yet.
    pub async fn open(queue: Arc<dyn Queue>) -> Result<Self, backstop_queue::QueueError> {
        let description = queue.describe().await?;
        Ok(Self {
            queue,
            description,
            refused: HashSet::new(),
        })
    }

    /// How many letters to pass to [`restore`] at once.
    pub const fn at_once() -> usize {
        REQUESTS * BATCH_ENTRIES
    }
}

/// Sends letters, several requests at a time; on a FIFO queue one after the other, and none of a group after one that was refused, now or by an earlier call. Letters that were not yet sent when `stop` is cancelled are in neither list.
pub async fn restore(
    target: &mut Restoring,
    letters: &[ArchivedLetter],
    stop: &CancellationToken,
) -> Restored {
    let outgoing: Vec<_> = letters
        .iter()
        .map(|letter| (letter.id.clone(), letter.outgoing(&target.description)))
        .collect();
    let batches = batches(outgoing, target.description.fifo);
    let mut result = Restored::default();
    if target.description.fifo {
        for batch in batches {
            let is_behind = |letter: &Letter| target.refused.contains(&letter.1.group);
            let (behind, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_behind);
            let why = "a letter before it in its group was refused".to_owned();
            let behind = behind.into_iter().map(|(id, _)| (id, why.clone()));
            result.refused.extend(behind);
            if stop.is_cancelled() {
                break;
            }
            for (id, group, sent) in send(&*target.queue, batch).await {
                if sent.is_err() {
                    target.refused.insert(group);
                }
                result.add(id, sent);
            }
        }
        return result;
    }
    let queue = &target.queue;
    let mut sending = stream::iter(batches)
        .map(|batch| async move {
            if stop.is_cancelled() {
                Vec::new()
            } else {
                send(&**queue, batch).await
            }
        })
        .buffered(REQUESTS);
    while let Some(sent) = sending.next().await {
        for (id, _, sent) in sent {
            result.add(id, sent);
        }
    }
    result
}

impl Restored {
    fn add(&mut self, id: String, sent: Result<(), String>) {
        match sent {
            Ok(()) => self.restored.push(id),
            Err(why) => self.refused.push((id, why)),
        }
    }
}

type Letter = (String, Outgoing);

/// Full batches. On a FIFO queue, a batch has each group once.
fn batches(letters: Vec<Letter>, fifo: bool) -> Vec<Vec<Letter>> {
    let mut batches: Vec<Vec<Letter>> = Vec::new();
    let (mut bytes, mut groups) = (0, HashSet::new());
    for (id, letter) in letters {
        let size = letter.size();
        let is_full = batches.last().is_none_or(|batch| {
            batch.len() >= BATCH_ENTRIES
                || bytes + size > BATCH_BYTES
                || (fifo && groups.contains(&letter.group))
        });
        if is_full {
            batches.push(Vec::new());
            bytes = 0;
            groups.clear();
        }
        bytes += size;
        groups.insert(letter.group.clone());
        if let Some(batch) = batches.last_mut() {
            batch.push((id, letter));
        }
    }
    batches
}

/// Sends a batch, with retries of what may still be accepted.
async fn send(
    queue: &dyn Queue,
    mut batch: Vec<Letter>,
) -> Vec<(String, Option<String>, Result<(), String>)> {
    let mut results = Vec::new();
    if batch.is_empty() {
        return results;
    }
    let mut delay = Duration::from_millis(100);
    for tried in 1..=TRIES {
        let messages: Vec<_> = batch.iter().map(|(_, letter)| letter.clone()).collect();
        let sent: Vec<_> = match queue.send(&messages).await {
            Ok(sent) => sent
                .into_iter()
                .map(|it| it.map_err(|it| (it.to_string(), it.retryable)))
                .collect(),
            Err(error) => {
                let failed = Err((error.to_string(), error.retryable));
                vec![failed; batch.len()]
            }
        };
        let mut again = Vec::new();
        for ((id, letter), sent) in batch.into_iter().zip(sent) {
            match sent {
                Err((_, true)) if tried < TRIES => again.push((id, letter)),
                Err((why, _)) => results.push((id, letter.group, Err(why))),
                Ok(()) => results.push((id, letter.group, Ok(()))),
            }
        }
        if again.is_empty() {
            break;
        }
        batch = again;
        sleep(delay).await;
        delay *= 3;
    }
    results
}
