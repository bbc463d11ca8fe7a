//! The Lambda retry handler: failed asynchronous invocations come as records from a retry queue, are held there until their time, and are invoked again.
//!
//! [`RetryHandler::handle`] takes one batch of an event source mapping. For each message, by time and not by receive count: `record` reads it, `event` knows which attempt at what it is, the decider decides, and `settle` holds it, invokes its function or dead-letters it. One bad record never fails the batch.

mod allowed;
mod batch;
mod event;
mod invoke;
mod lookup;
mod message;
mod record;
mod recursion;
mod refresh;
mod retry_queue;
mod settle;
pub mod start;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::decider::Decider;
use crate::queue::{Connections, Requests};
use recursion::Recursion;
use retry_queue::{RetryQueue, RetryQueues};
use settle::Gone;

pub use allowed::Allowed;
pub use batch::{Batch, BatchAttribute, BatchItemFailure, BatchMessage, BatchResponse};
pub use invoke::{Functions, LambdaApi};
pub use record::{NoRecord, Record};
pub use refresh::Refresh;
pub(crate) use settle::STEP;

/// Messages in work at once.
const CONCURRENT: usize = 32;

/// How the handler goes about its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The retry queue's URL; found by the mapping's ARN where none is given.
    pub retry_queue: Option<String>,
    /// The dead-letter queue's URL; that of the retry queue's redrive policy where none is given.
    pub dead_letter_queue: Option<String>,
    /// Which functions may be invoked.
    pub functions: Allowed,
    /// What is kept of an invocation's time: no message is begun any more when no more is left.
    pub margin: Duration,
}

/// A batch that is refused as a whole: everything in it comes again.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The queue of the mapping can't be a retry queue.
    #[error(
        "{0} is a FIFO queue: Lambda delivers no on-failure records to one, and a message that waits would hold up its group; use a standard queue"
    )]
    Fifo(String),
    /// A message that has to come again can't be named in the response.
    #[error("{0} messages can't be told by their ids and have to come again: the whole batch does")]
    Unnamed(usize),
}

/// Handles batches of one or more retry queues.
pub struct RetryHandler {
    queues: RetryQueues,
    decider: Decider,
    functions: Arc<dyn Functions>,
    options: Options,
    requests: Arc<Requests>,
    chains: Recursion,
}

impl fmt::Debug for RetryHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryHandler")
            .field("decider", &self.decider)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl RetryHandler {
    /// A handler that reaches its queues by `connections`. Asks nothing of AWS before the first batch.
    pub fn new(
        connections: Arc<Connections>,
        decider: Decider,
        functions: Arc<dyn Functions>,
        options: Options,
    ) -> Self {
        let requests = Arc::<Requests>::default();
        Self {
            queues: RetryQueues::new(connections, &options, Arc::clone(&requests)),
            decider,
            chains: Recursion::new(Arc::clone(&functions)),
            functions,
            options,
            requests,
        }
    }

    /// Requests made to SQS so far, those to look at the queues left aside.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Handles a batch until `deadline`. The response names every message that has to come again, and never an empty id.
    pub async fn handle(
        self: &Arc<Self>,
        batch: Batch,
        deadline: Instant,
    ) -> Result<BatchResponse, BatchError> {
        let mut by_queue: BTreeMap<String, Vec<BatchMessage>> = BTreeMap::new();
        for given in batch.records {
            let arn = given.event_source_arn.clone().unwrap_or_default();
            by_queue.entry(arn).or_default().push(given);
        }
        if let Some(arn) = by_queue.keys().find(|arn| arn.ends_with(".fifo")) {
            return Err(BatchError::Fifo(arn.clone()));
        }
        let mut response = BatchResponse::default();
        let mut unnamed = 0;
        for (arn, messages) in by_queue {
            for id in self.handle_all(&arn, messages, deadline).await {
                match id {
                    Some(id) => response.add_failure(id),
                    None => unnamed += 1,
                }
            }
        }
        match unnamed {
            0 => Ok(response),
            some => Err(BatchError::Unnamed(some)),
        }
    }

    /// Handles the messages of one queue; the ids of those that have to come again.
    async fn handle_all(
        self: &Arc<Self>,
        arn: &str,
        given: Vec<BatchMessage>,
        deadline: Instant,
    ) -> Vec<Option<String>> {
        // A function with a short timeout has a short margin, and not no time to work in.
        let left = deadline.saturating_duration_since(Instant::now());
        let margin = self.options.margin.min(left / 3);
        let begin_until = deadline.checked_sub(margin).unwrap_or(deadline);
        let end = deadline.checked_sub(margin / 5).unwrap_or(deadline);
        let total = given.len();
        let ids: Vec<Option<String>> = given
            .iter()
            .map(|message| message.message_id.clone().filter(|id| !id.is_empty()))
            .collect();
        let Ok(Ok(open)) = timeout_at(begin_until, self.queues.open(arn)).await else {
            tracing::error!(
                queue = arn,
                messages = total,
                "the retry queue can't be reached: its messages come again"
            );
            return ids;
        };
        let gone: Vec<Gone> = std::iter::repeat_with(Gone::default).take(total).collect();
        let mut work = self.begin(&open, given.into_iter().zip(&gone), begin_until, end);
        while let Ok(Some(ended)) = timeout_at(end, work.join_next()).await {
            if let Err(error) = ended {
                tracing::error!(%error, "the work on a message failed: it comes again");
            }
        }
        if !work.is_empty() {
            tracing::warn!(
                queue = arn,
                messages = work.len(),
                "time is short: what is still under way comes again, unless it is done already"
            );
        }
        let gone: Vec<bool> = gone.iter().map(Gone::is_set).collect();
        let done = gone.iter().filter(|gone| **gone).count();
        let shadow = self.decider.shadow().map(|shadow| shadow.counts().tally());
        tracing::info!(
            queue = arn,
            received = total,
            gone = done,
            left = total - done,
            // Since this process began, as far as the shadow has answered.
            "shadow-agreed" = shadow.map(|shadow| shadow.agreed),
            "shadow-differed" = shadow.map(|shadow| shadow.differed),
            "shadow-broken" = shadow.map(|shadow| shadow.broken),
            "shadow-skipped" = shadow.map(|shadow| shadow.skipped),
            "batch handled"
        );
        ids.into_iter()
            .zip(gone)
            .filter(|(_, gone)| !gone)
            .map(|(id, _)| id)
            .collect()
    }

    /// Begins the work on each message: a task for each, so that a panic is the end of nothing else.
    fn begin<'a>(
        self: &Arc<Self>,
        open: &Arc<RetryQueue>,
        given: impl Iterator<Item = (BatchMessage, &'a Gone)>,
        begin_until: Instant,
        end: Instant,
    ) -> JoinSet<()> {
        let places = Arc::new(Semaphore::new(CONCURRENT));
        let mut work = JoinSet::new();
        for (given, gone) in given {
            let (handler, open, gone) = (Arc::clone(self), Arc::clone(open), gone.clone());
            let places = Arc::clone(&places);
            let id = given.message_id.clone().unwrap_or_default();
            let span = tracing::info_span!("message", id);
            let one = async move {
                let _place = places.acquire_owned().await;
                if Instant::now() >= begin_until {
                    tracing::warn!("time is short: the message comes again");
                    return;
                }
                match message::message(given, open.queue.now()) {
                    Some(message) => handler.settle(&open, &message, &gone, end).await,
                    None => tracing::warn!(
                        "a message came without an id, a receipt handle or a body: it comes again"
                    ),
                }
            };
            work.spawn(one.instrument(span));
        }
        work
    }
}
