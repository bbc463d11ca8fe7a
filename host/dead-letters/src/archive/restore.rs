//! Puts archived letters back into a queue.

use std::collections::HashSet;
use std::sync::Arc;

use backstop_queue::{BATCH_ENTRIES, Description, Outgoing, Queue, batches, rounds};
use futures_util::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use super::line::ArchivedLetter;
use crate::requests::SENDS;

/// The most batches under way at the same time.
const REQUESTS: usize = 8;

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
    let size = |letter: &Letter| letter.1.size();
    let mut result = Restored::default();
    if target.description.fifo {
        let rounds = rounds(outgoing, |letter| letter.1.group.clone());
        for batch in rounds.into_iter().flat_map(|it| batches(it, size)) {
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
    let mut sending = stream::iter(batches(outgoing, size))
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

/// Sends a batch, with retries of what may still be accepted.
async fn send(
    queue: &dyn Queue,
    batch: Vec<Letter>,
) -> Vec<(String, Option<String>, Result<(), String>)> {
    let (ids, messages): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let send = |batch: Vec<_>| async move { queue.send(&batch).await };
    let sent = SENDS.batch(&messages, || true, send).await;
    let each = ids.into_iter().zip(messages).zip(sent);
    each.map(|((id, letter), sent)| {
        let sent = sent.result.map_err(|error| error.to_string());
        (id, letter.group, sent)
    })
    .collect()
}
