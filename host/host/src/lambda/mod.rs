//! The Lambda retry handler: failed asynchronous invocations arrive as records on a retry queue, are held there until they are due, and are invoked again.
//!
//! [`RetryHandler::handle`] handles one batch of an event source mapping. A message moves forward through these modules: `batch` and `message` read it, [`Event`](backstop_functions::Event) says which attempt of which event failed, `handle` has the decider decide, and `reinvoke` invokes the function or a [`Settler`](backstop_settle::Settler) settles the message. An invalid record never fails the batch.

mod allowed;
mod answer;
mod batch;
mod handle;
mod message;
mod metrics;
mod recursion;
mod refresh;
mod refused;
mod reinvoke;
mod response;
mod retry_queue;
mod spans;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;
use tracing::field::Empty;

use crate::config::DeadLetterQueues;
use crate::hold::{HoldMode, HoldSettings};
use crate::queue::{Connections, Requests, short_name};
use answer::Handled;
use backstop_decider::Decider;
use backstop_functions::Functions;
use backstop_queue::envelope::EnvelopeKeys;
use metrics::Metrics;
use recursion::{Chain, Recursion};
use response::{Mappings, Response};
use retry_queue::{RetryQueue, RetryQueues};

pub use allowed::Allowed;
pub use batch::{Batch, BatchAttribute, BatchItemFailure, BatchMessage, BatchResponse};
pub(crate) use message::STEP;
pub use refresh::Refresh;
pub use start::{ColdStartError, Started, compiled_folders, start};

/// Messages handled at the same time.
const CONCURRENT: usize = 32;

/// The options of the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryHandlerOptions {
    /// The retry queue's URL. By default it is found by the mapping's ARN.
    pub retry_queue: Option<String>,
    /// The dead-letter queues' URLs. By default that of the retry queue's redrive policy.
    pub dead_letter_queues: DeadLetterQueues,
    /// Which functions may be invoked.
    pub functions: Allowed,
    /// How messages are held until their event is due.
    pub hold: HoldMode,
    /// The keys by which the handler knows the envelopes of messages that were sent again.
    pub envelope_keys: Option<EnvelopeKeys>,
    /// The handler's own function, whose event source mapping is looked up.
    pub handler: Option<String>,
    /// The part of an invocation's time that is reserved: no message is started in it.
    pub margin: Duration,
}

/// The whole batch fails, and all of its messages are delivered again.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The queue of the mapping can't be a retry queue.
    #[error(
        "{0} is a FIFO queue: Lambda delivers no on-failure records to one, and a delayed message would block its group; use a standard queue"
    )]
    Fifo(String),
    /// The mapping would delete every message that has to wait.
    #[error(
        "the event source mapping of {0} does not have ReportBatchItemFailures, so it would delete every message that waits, and its event would be lost: nothing is handled until FunctionResponseTypes of the mapping is set to ReportBatchItemFailures"
    )]
    ResponseIgnored(String),
    /// The mapping may delete the messages that are left.
    #[error(
        "{0} messages have to stay in the queue, and it is not known whether the event source mapping has ReportBatchItemFailures: the whole batch fails, so that none is deleted. Allow lambda:ListEventSourceMappings to the handler"
    )]
    Unreported(usize),
    /// A failed message has no id, so the response cannot name it.
    #[error("{0} failed messages have no id: the whole batch is delivered again")]
    Unnamed(usize),
}

/// Handles batches of one or more retry queues.
pub struct RetryHandler {
    queues: RetryQueues,
    decider: Decider,
    functions: Arc<dyn Functions>,
    options: RetryHandlerOptions,
    requests: Arc<Requests>,
    chains: Recursion,
    mappings: Mappings,
    metrics: Metrics,
}

backstop_core::shown!(RetryHandler, handler =>
    decider = handler.decider, options = handler.options
);

impl RetryHandler {
    /// A handler that reaches its queues through `connections`. Makes no requests before the first batch.
    pub fn new(
        connections: Arc<Connections>,
        decider: Decider,
        functions: Arc<dyn Functions>,
        options: RetryHandlerOptions,
    ) -> Self {
        let requests = Arc::<Requests>::default();
        let classes = options.dead_letter_queues.classes.keys().cloned();
        Self {
            metrics: Metrics::of(classes),
            queues: RetryQueues::new(
                connections,
                HoldSettings {
                    mode: options.hold,
                    keys: options.envelope_keys.clone(),
                    max_age: decider.max_age(),
                },
                &options,
                Arc::clone(&requests),
                decider.events(),
            ),
            decider,
            chains: Recursion::new(Arc::clone(&functions)),
            mappings: Mappings::of(Arc::clone(&functions), options.handler.clone()),
            functions,
            options,
            requests,
        }
    }

    /// Passes the metrics of each batch to `sink` from now on, as lines in CloudWatch's embedded metric format.
    pub fn export_metrics_to(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        self.metrics.export_to(sink);
    }

    /// Requests to SQS so far, without lookups of queues.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Handles a batch until `deadline`. The response names every message that has to be delivered again, and never an empty id.
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
        let mut responses = BTreeMap::new();
        for arn in by_queue.keys() {
            let response = self.mappings.response(arn, look_up_time(deadline)).await;
            if response == Response::Ignored {
                return Err(BatchError::ResponseIgnored(arn.clone()));
            }
            responses.insert(arn.clone(), response);
        }
        let mut response = BatchResponse::default();
        let (mut unnamed, mut unreported) = (0, 0);
        for (arn, messages) in by_queue {
            let is_read = responses.get(&arn) == Some(&Response::Read);
            let left = self.handle_all(&arn, messages, is_read, deadline).await;
            if !is_read {
                unreported += left.len();
            }
            for id in left {
                match id {
                    Some(id) => response.add_failure(id),
                    None => unnamed += 1,
                }
            }
        }
        match (unnamed, unreported) {
            (0, 0) => Ok(response),
            (0, some) => Err(BatchError::Unreported(some)),
            (some, _) => Err(BatchError::Unnamed(some)),
        }
    }

    /// Whether messages may be sent again instead of being held by visibility: where nothing reports that they wait, and Lambda does not take their hops for a loop.
    async fn prefers_resend(&self, is_read: bool, deadline: Instant) -> bool {
        match &self.options.handler {
            Some(handler) if !is_read => {
                let chain = timeout(look_up_time(deadline), self.chains.of(handler)).await;
                chain == Ok(Chain::Continues)
            }
            Some(_) | None => false,
        }
    }

    /// Handles the messages of one queue. Returns the ids of those that have to be delivered again.
    async fn handle_all(
        self: &Arc<Self>,
        arn: &str,
        given: Vec<BatchMessage>,
        is_read: bool,
        deadline: Instant,
    ) -> Vec<Option<String>> {
        // A function with a short timeout has a short margin, so that it has time to work.
        let left = deadline.saturating_duration_since(Instant::now());
        let margin = self.options.margin.min(left / 3);
        let start_until = deadline.checked_sub(margin).unwrap_or(deadline);
        let end = deadline.checked_sub(margin / 5).unwrap_or(deadline);
        let total = given.len();
        let ids: Vec<Option<String>> = given
            .iter()
            .map(|message| message.message_id.clone().filter(|id| !id.is_empty()))
            .collect();
        let Ok(Ok(queue)) = timeout_at(start_until, self.queues.open(arn)).await else {
            tracing::error!(
                queue = arn,
                messages = total,
                "the retry queue can't be reached: its messages are delivered again"
            );
            return ids;
        };
        // Between two invocations, Lambda may have frozen this process.
        queue.queue.was_frozen();
        let prefers_resend = self.prefers_resend(is_read, deadline).await;
        queue.settler.holds.set_prefers_resend(prefers_resend);
        let handled: Vec<Handled> = std::iter::repeat_with(Handled::default)
            .take(total)
            .collect();
        let mut work = self.start(&queue, given.into_iter().zip(&handled), start_until, end);
        while let Ok(Some(ended)) = timeout_at(end, work.join_next()).await {
            if let Err(error) = ended {
                tracing::error!(%error, "handling a message failed: it is delivered again");
            }
        }
        if !work.is_empty() {
            tracing::warn!(
                queue = arn,
                messages = work.len(),
                "the invocation is about to time out: unfinished messages are delivered again"
            );
        }
        let handled: Vec<bool> = handled.iter().map(Handled::is_set).collect();
        let done = handled.iter().filter(|handled| **handled).count();
        self.metrics
            .ended(short_name(arn), total, queue.queue.now());
        let shadow = self.decider.shadow().map(|shadow| shadow.counts().tally());
        tracing::info!(
            queue = arn,
            received = total,
            gone = done,
            left = total - done,
            // Since the start of this process, as far as the shadow has answered.
            "shadow-agreed" = shadow.map(|shadow| shadow.agreed),
            "shadow-differed" = shadow.map(|shadow| shadow.differed),
            "shadow-broken" = shadow.map(|shadow| shadow.broken),
            "shadow-skipped" = shadow.map(|shadow| shadow.skipped),
            "batch handled"
        );
        ids.into_iter()
            .zip(handled)
            .filter(|(_, handled)| !handled)
            .map(|(id, _)| id)
            .collect()
    }

    /// Starts a task for each message, so that a panic affects no other.
    fn start<'a>(
        self: &Arc<Self>,
        queue: &Arc<RetryQueue>,
        given: impl Iterator<Item = (BatchMessage, &'a Handled)>,
        start_until: Instant,
        end: Instant,
    ) -> JoinSet<()> {
        let permits = Arc::new(Semaphore::new(CONCURRENT));
        let mut work = JoinSet::new();
        for (given, handled) in given {
            let (handler, queue, handled) = (Arc::clone(self), Arc::clone(queue), handled.clone());
            let permits = Arc::clone(&permits);
            let id = given.message_id.clone().unwrap_or_default();
            // Its fields belong to errors too, where nothing else is logged.
            let span = tracing::error_span!("message", id, event = Empty, attempt = Empty);
            let one = async move {
                let _permit = permits.acquire_owned().await;
                if Instant::now() >= start_until {
                    tracing::warn!(
                        "the invocation is about to time out: the message is delivered again"
                    );
                    return;
                }
                let now = queue.queue.now();
                match message::message(given, now) {
                    Some(mut message) => {
                        queue.settler.holds.open(&mut message, now);
                        handler.handle_one(&queue, &message, &handled, end).await;
                    }
                    None => tracing::warn!(
                        "a message has no id, receipt handle or body: it is delivered again"
                    ),
                }
            };
            work.spawn(one.instrument(span));
        }
        work
    }
}

/// How long a look-up may take without which a batch can be handled, too: it leaves time to do so.
fn look_up_time(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()) / 3
}
