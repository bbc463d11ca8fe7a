//! Receiving letters without taking them from anybody: each is invisible while the reading lasts, and visible again at its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_queue::{
    BATCH_ENTRIES, Description, Queue, QueueError, ReceiptHandle, SubmitError, VisibilityTimeout,
    short_name,
};
use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::arrivals::Arrivals;
use crate::letter::Letter;
use crate::requests::{PROMPT, read as read_queue};
pub use crate::seen::{End, Seen};

/// How long one receive waits for letters. SQS asks all of its servers only if it may wait.
const POLL: Duration = Duration::from_secs(1);

/// How long the last receives wait, if fewer letters came than the queue reports.
const LAST_POLL: Duration = Duration::from_secs(3);

/// After so many receives with nothing but letters that arrived after the start, it ends without knowing if more of those that were there are left; after `ENOUGH` if as many were seen as the queue reported.
const LATER_ONLY: u32 = 10;
const ENOUGH: u32 = 2;

/// The most requests under way at the same time.
const REQUESTS: usize = 8;

/// The most memory for the letters of the requests under way, as far as letters are as large as those before them.
const BYTES_AT_ONCE: usize = 32 << 20;

/// Letters that are read in one second at least, for the length of a reading.
const LETTERS_A_SECOND: usize = 50;

/// The longest reading by default.
const LONGEST: u32 = 3_600;

/// The part of the visibility timeout that is left for the requests at the end.
const MARGIN: Duration = Duration::from_secs(5);

/// A redrive policy with a smaller maximum could move letters because they are read.
const SAFE_RECEIVES: u32 = 100;

/// From this many receives before the maximum, reading stops.
const SAFE_DISTANCE: u32 = 10;

/// How letters are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The most letters that are held at the same time, and so the most that are seen unless they are deleted meanwhile. 10,000 by default.
    pub most: usize,
    /// How long the letters are invisible, and so the longest time of the reading. By default, a minute and a second for every 50 letters that the queue reports; an hour at most.
    pub visibility: Option<VisibilityTimeout>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            most: 10_000,
            visibility: None,
        }
    }
}

/// Why letters can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A request failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Reading the queue could move its messages away.
    #[error(
        "{queue} has a redrive policy of its own, which moves a message to {target} after {receives} receives: reading counts as receiving, so it could move letters there. If that queue has the dead letters, name it instead; if this one has them, remove its redrive policy first"
    )]
    Redrive {
        /// The queue's name.
        queue: String,
        /// The name of the queue where they would be moved.
        target: String,
        /// The maximum receive count.
        receives: u32,
    },
}

/// A letter that this reader holds.
#[derive(Debug, Clone)]
struct Held {
    handle: ReceiptHandle,
    until: Instant,
}

/// Receives the letters of one queue. [`Reader::release`] has to be called at the end, whatever happens: without it, the letters are invisible until their visibility timeout ends.
#[derive(Debug)]
pub struct Reader {
    queue: Arc<dyn Queue>,
    description: Description,
    options: ReadOptions,
    visibility: VisibilityTimeout,
    deadline: Instant,
    held: HashMap<String, Held>,
    arrivals: Arrivals,
    seen: usize,
    later: usize,
    /// The bytes of the letters that were seen.
    bytes: usize,
    end: Option<End>,
}

impl Reader {
    /// Opens a queue. Receives nothing yet. A queue whose own redrive policy could move letters because they are read is refused.
    pub async fn open(queue: Arc<dyn Queue>, options: ReadOptions) -> Result<Self, ReadError> {
        let description = read_queue(|| queue.describe()).await?;
        if let Some(redrive) = &description.redrive
            && redrive.max_receive_count.get() < SAFE_RECEIVES
        {
            return Err(ReadError::Redrive {
                queue: short_name(&description.arn).to_owned(),
                target: short_name(&redrive.dead_letter_arn).to_owned(),
                receives: redrive.max_receive_count.get(),
            });
        }
        let about = description
            .visible
            .unwrap_or(options.most)
            .min(options.most);
        let seconds = 60 + u32::try_from(about / LETTERS_A_SECOND).unwrap_or(LONGEST);
        let visibility = options
            .visibility
            .unwrap_or(VisibilityTimeout::from_seconds(seconds.min(LONGEST)));
        Ok(Self {
            deadline: Instant::now(),
            arrivals: Arrivals::new(queue.now(), &description),
            queue,
            description,
            options,
            visibility,
            held: HashMap::new(),
            seen: 0,
            later: 0,
            bytes: 0,
            end: None,
        })
    }

    /// The queue's attributes at the start.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// How many letters were seen.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Why it has ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The next letters of those that were in the queue when it was opened, each once; none at the end. They are invisible for others until they are released or deleted.
    ///
    /// A request that is under way is not dropped when `stop` is cancelled: it would take letters to nobody. It ends within seconds.
    pub async fn next(&mut self, stop: &CancellationToken) -> Result<Vec<Letter>, ReadError> {
        let (mut is_last, mut later_only) = (false, 0);
        loop {
            self.end = self.end.or_else(|| self.limit(stop));
            if self.end.is_some() {
                return Ok(Vec::new());
            }
            if self.held.is_empty() {
                let margin = MARGIN.min(self.visibility.as_duration() / 4);
                self.deadline = Instant::now() + self.visibility.as_duration() - margin;
            }
            let wait = if is_last { LAST_POLL } else { POLL };
            let received = self.receive(wait).await?;
            let is_empty = received.is_empty();
            let letters = self.take(received);
            if !letters.is_empty() {
                return Ok(letters);
            }
            let all_seen = self.description.visible.is_some_and(|it| it <= self.seen);
            later_only += u32::from(!is_empty);
            let enough = if all_seen { ENOUGH } else { LATER_ONLY };
            if is_empty && (is_last || all_seen) {
                self.end = Some(End::Empty);
            } else if later_only >= enough {
                self.end = Some(if all_seen { End::Empty } else { End::Later });
            }
            is_last = is_empty;
        }
    }

    fn limit(&self, stop: &CancellationToken) -> Option<End> {
        if stop.is_cancelled() {
            Some(End::Stopped)
        } else if self.held.len() >= self.options.most {
            Some(End::Most)
        } else {
            (Instant::now() >= self.deadline && !self.held.is_empty()).then_some(End::Time)
        }
    }

    /// One receive, or several at the same time if there are many letters.
    async fn receive(&self, wait: Duration) -> Result<Vec<backstop_queue::Message>, QueueError> {
        let left = self.options.most.saturating_sub(self.held.len()).max(1);
        let expected = self.description.visible.unwrap_or(left);
        let expected = expected.saturating_sub(self.seen).clamp(1, left);
        // The order of a group would be lost between two receives.
        let requests = if self.description.fifo {
            1
        } else {
            expected.div_ceil(BATCH_ENTRIES).min(self.requests())
        };
        let receives = (0..requests).map(|number| {
            let entries = left.saturating_sub(number * BATCH_ENTRIES);
            let entries = entries.clamp(1, BATCH_ENTRIES);
            read_queue(move || self.queue.receive(entries, wait, self.visibility))
        });
        let mut messages = Vec::new();
        let mut failure = None;
        for result in join_all(receives).await {
            match result {
                Ok(received) => messages.extend(received),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            // What the others have received must be released, too.
            Some(error) if messages.is_empty() => Err(error),
            Some(_) | None => Ok(messages),
        }
    }

    /// How many requests may be under way: fewer if letters are large, and one before their size is known.
    fn requests(&self) -> usize {
        match self.bytes.checked_div(self.seen) {
            Some(average) => (BYTES_AT_ONCE / (average * BATCH_ENTRIES).max(1)).clamp(1, REQUESTS),
            None => 1,
        }
    }

    /// Holds the messages, and returns those that were there at the start and not seen before. Later ones are held, too, so that they do not come again and again.
    fn take(&mut self, messages: Vec<backstop_queue::Message>) -> Vec<Letter> {
        let mut letters = Vec::with_capacity(messages.len());
        let most = self.description.redrive.as_ref();
        let most = most.map(|redrive| redrive.max_receive_count.get());
        let now = self.queue.now();
        messages.iter().for_each(|it| self.arrivals.learn(it, now));
        for message in messages {
            let held = Held {
                handle: message.receipt_handle.clone(),
                until: message.received + self.visibility.as_duration(),
            };
            let is_close = |most| message.receive_count.get() + SAFE_DISTANCE >= most;
            if most.is_some_and(is_close) {
                self.end = Some(End::Receives);
            }
            // SQS may deliver a copy, and a letter whose timeout has ended comes again.
            if self.held.insert(message.id.clone(), held).is_some() {
                continue;
            }
            if !self.arrivals.was_there(&message, self.seen, now) {
                self.later += 1;
            } else {
                self.seen += 1;
                self.bytes += message.size();
                letters.push(Letter::of(message));
            }
        }
        letters
    }

    /// Deletes letters that it holds. Returns the ids of those that could not be deleted, with the reason.
    pub async fn delete(&mut self, ids: &[String]) -> Vec<(String, String)> {
        let (ids, handles): (Vec<_>, Vec<_>) = ids
            .iter()
            .filter_map(|id| Some((id.clone(), self.held.get(id)?.handle.clone())))
            .unzip();
        let queue = &self.queue;
        let delete = |handles: Vec<_>| async move { queue.delete(&handles).await };
        let results = PROMPT.batches(&handles, REQUESTS, delete).await;
        let mut failed = Vec::new();
        for (id, result) in ids.into_iter().zip(results) {
            match result {
                Ok(()) => {
                    self.held.remove(&id);
                }
                Err(error) => failed.push((id, error.to_string())),
            }
        }
        failed
    }

    /// How many letters others hold: at the start or now, whichever is more. Another reading may have begun at the same time.
    async fn held_by_others(&self) -> usize {
        let before = self.description.in_flight.unwrap_or(0);
        if !matches!(self.end, Some(End::Empty | End::Later)) {
            return before;
        }
        match self.queue.describe().await {
            Ok(now) => before.max(now.in_flight.unwrap_or(0).saturating_sub(self.held.len())),
            Err(_) => before,
        }
    }

    /// Makes all letters visible again that it still holds.
    pub async fn release(mut self) -> Seen {
        let held_by_others = self.held_by_others().await;
        let now = Instant::now();
        // After its timeout, a letter is visible already, or somebody else holds it.
        let held: Vec<_> = self
            .held
            .drain()
            .map(|(_, held)| held)
            .filter(|held| held.until > now + Duration::from_secs(1))
            .collect();
        let last = held.iter().map(|held| held.until).max();
        let changes: Vec<_> = held
            .into_iter()
            .map(|held| (held.handle, VisibilityTimeout::ZERO))
            .collect();
        let queue = &self.queue;
        let change = |changes: Vec<_>| async move { queue.change_visibility(&changes).await };
        let results = PROMPT.batches(&changes, REQUESTS, change).await;
        // A letter that somebody has deleted meanwhile is refused with an invalid handle.
        let is_hidden = |result: &Result<(), SubmitError>| {
            let gone = [
                "ReceiptHandleIsInvalid",
                "does not exist",
                "MessageNotInflight",
            ];
            let why = result.as_ref().map_err(ToString::to_string);
            why.is_err_and(|why| !gone.iter().any(|it| why.contains(it)))
        };
        let hidden = results.iter().filter(|it| is_hidden(it)).count();
        Seen {
            letters: self.seen,
            about: self.description.visible,
            held_by_others,
            later: self.later,
            fifo: self.description.fifo,
            end: self.end.unwrap_or(End::Stopped),
            hidden,
            hidden_for: last.map_or(Duration::ZERO, |last| {
                last.saturating_duration_since(Instant::now())
            }),
        }
    }
}

/// Reads the letters of a queue, and makes them visible again, also after an error and when `stop` is cancelled.
pub async fn read(
    queue: Arc<dyn Queue>,
    options: ReadOptions,
    stop: &CancellationToken,
    mut each: impl AsyncFnMut(Letter),
) -> Result<Seen, ReadError> {
    let mut reader = Reader::open(queue, options).await?;
    let read = loop {
        match reader.next(stop).await {
            Ok(letters) if letters.is_empty() => break Ok(()),
            Ok(letters) => {
                for letter in letters {
                    each(letter).await;
                }
            }
            Err(error) => break Err(error),
        }
    };
    let seen = reader.release().await;
    read.map(|()| seen)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
