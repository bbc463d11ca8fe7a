//! Letters in files: written and synced before they are deleted from their queue, and put back from there.

mod file;
mod line;
mod restore;

pub use file::{ArchiveError, ArchiveFile, ArchivedLetters, LINE_BYTES};
pub use line::{ArchivedLetter, InvalidLine};
pub use restore::{Restored, Restoring, restore};

use std::time::Duration;

use backstop_core::clock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::filter::Filters;
use crate::reader::{ReadError, Reader};

/// What is stored together, and then deleted.
#[derive(Debug, Clone, Copy)]
pub struct BatchSize {
    /// The most letters.
    pub letters: usize,
    /// From this many bytes it is full.
    pub bytes: usize,
    /// How long a letter waits for others.
    pub wait: Duration,
}

/// What an archive has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archived {
    /// Letters that were stored and deleted.
    pub archived: usize,
    /// The bytes of their lines.
    pub bytes: u64,
    /// Letters that were stored but could not be deleted: they are still in the queue.
    pub not_deleted: usize,
    /// Why one of these could not be deleted.
    pub why: Option<String>,
}

/// Why an archive has stopped. What was stored before is complete, and only what was stored is deleted.
#[derive(Debug, thiserror::Error)]
pub enum ArchivingError<E: std::error::Error + 'static> {
    /// Letters can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Letters can't be stored: they stay in the queue.
    #[error("the letters can't be stored, so they stay in their queue")]
    Store(#[source] E),
}

/// Stores the letters of a queue that fit, and deletes those that `store` has stored. `store` must return only when its lines are safe: they are the only copies then.
///
/// The caller releases the reader, whatever this returns.
pub async fn archive<E: std::error::Error + 'static>(
    reader: &mut Reader,
    filters: &Filters,
    batch: BatchSize,
    stop: &CancellationToken,
    mut store: impl AsyncFnMut(Vec<String>) -> Result<(), E>,
    mut progress: impl FnMut(usize),
) -> Result<Archived, ArchivingError<E>> {
    let (queue, fifo) = (reader.description().arn.clone(), reader.description().fifo);
    let mut result = Archived::default();
    let (mut ids, mut lines, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut since = Instant::now();
    loop {
        // After an error, what was received is made visible again.
        let letters = reader.next(stop).await?;
        let is_end = letters.is_empty();
        for letter in letters.iter().filter(|it| filters.matches(it)) {
            if ids.is_empty() {
                since = Instant::now();
            }
            let line = ArchivedLetter::of(&letter.message, &queue, clock::now()).line();
            bytes += line.len();
            ids.push(letter.message.id.clone());
            lines.push(line);
        }
        // SQS shows the others of a group only when these have left it.
        let is_full = ids.len() >= batch.letters || bytes >= batch.bytes || fifo;
        if !ids.is_empty() && (is_full || is_end || since.elapsed() >= batch.wait) {
            store(std::mem::take(&mut lines))
                .await
                .map_err(ArchivingError::Store)?;
            let failed = reader.delete(&ids).await;
            result.archived += ids.len() - failed.len();
            result.not_deleted += failed.len();
            result.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            result.why = result.why.or(failed.into_iter().next().map(|(_, why)| why));
            progress(ids.len());
            ids.clear();
            bytes = 0;
        }
        if is_end {
            return Ok(result);
        }
    }
}
