//! How a host reaches a queue: with latency, and with every fault of the plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_queue::{
    BatchResult, Description, EntryError, LocalQueue, Message, Outgoing, Queue, QueueError,
    ReceiptHandle, TrackedResult, VisibilityTimeout,
};
use tokio::time::sleep;

use super::history::Event;
use super::plan::Kind;
use super::world::{World, number_of};

/// How long a client waits for an answer that does not come.
const NO_ANSWER: Duration = Duration::from_secs(8);

/// A host, as the world sees it.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) slot: usize,
    alive: Arc<AtomicBool>,
    world: Arc<World>,
}

impl Identity {
    pub(crate) fn new(id: u64, slot: usize, world: &Arc<World>) -> Self {
        Self {
            id,
            slot,
            alive: Arc::new(AtomicBool::new(true)),
            world: Arc::clone(world),
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// From now on, nothing that this host does reaches anybody.
    pub(crate) fn kill(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// Goes on if the host lives, and once it is not frozen any more. The tasks of one that was killed wait for ever.
    pub(crate) async fn lives(&self) {
        while let Some(until) = self.world.frozen_until(self.slot) {
            self.world.until(until).await;
        }
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }
}

/// A queue of the model, as one host reaches it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) host: Identity,
    pub(crate) queue: Arc<LocalQueue>,
    /// Whether it is the queue of dead letters.
    pub(crate) dead: bool,
}

/// What becomes of a request.
enum Fate {
    Answered,
    Lost,
}

impl Link {
    fn world(&self) -> &World {
        self.host.world()
    }

    fn faulty(&self, operation: &'static str, number: Option<u32>) {
        let host = self.host.id;
        self.world().happened(Event::Faulty {
            host,
            number,
            operation,
        });
    }

    /// The way of a request to the queue. `Err` if it is not carried out.
    async fn there(&self, operation: &'static str) -> Result<Fate, QueueError> {
        let world = self.world();
        self.host.lives().await;
        world.requested();
        let late = world.strikes(Kind::LateAnswers, (1, 2));
        if late {
            self.faulty(operation, None);
        }
        sleep(world.milliseconds(1, if late { 30_000 } else { 30 })).await;
        self.host.lives().await;
        for (kind, code, text) in [
            (Kind::Refused, "ServiceUnavailable", "the service is busy"),
            (Kind::Throttled, "RequestThrottled", "slow down"),
        ] {
            if world.strikes(kind, (1, 2)) {
                self.faulty(operation, None);
                let mut error = QueueError::new(operation, code, text);
                error.status = Some(if kind == Kind::Refused { 503 } else { 400 });
                return Err(error);
            }
        }
        let is_lost = world.strikes(Kind::LostAnswers, (1, 3));
        Ok(if is_lost { Fate::Lost } else { Fate::Answered })
    }

    /// The way of the answer back.
    async fn back(&self, operation: &'static str, fate: Fate) -> Result<(), QueueError> {
        let world = self.world();
        if matches!(fate, Fate::Lost) {
            self.faulty(operation, None);
            sleep(NO_ANSWER).await;
            self.host.lives().await;
            return Err(QueueError::new(operation, "ETIMEDOUT", "no answer"));
        }
        sleep(world.milliseconds(1, 20)).await;
        self.host.lives().await;
        Ok(())
    }

    /// The way of a batch to the queue, and which of its entries fail by themselves.
    async fn batch(
        &self,
        operation: &'static str,
        numbers: Vec<u32>,
    ) -> Result<(Fate, Vec<bool>), QueueError> {
        let fate = self.there(operation).await?;
        let fails = numbers.into_iter().map(|number| {
            let fails = self.world().strikes(Kind::PartialFailures, (1, 3));
            if fails {
                self.faulty(operation, Some(number));
            }
            fails
        });
        let fails = fails.collect();
        Ok((fate, fails))
    }

    async fn deleted(&self, handle: &ReceiptHandle) -> Result<(), EntryError> {
        let number = self.world().number_of_handle(handle);
        let result = one(self.queue.delete(std::slice::from_ref(handle)).await);
        let host = self.host.id;
        if result.is_ok() {
            self.world().happened(Event::Deleted { host, number });
        }
        result
    }

    async fn hidden(
        &self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
    ) -> Result<(), EntryError> {
        let number = self.world().number_of_handle(handle);
        let change = [(handle.clone(), timeout)];
        let result = one(self.queue.change_visibility(&change).await);
        let (host, seconds) = (self.host.id, timeout.seconds());
        if result.is_ok() {
            self.world().happened(Event::Hidden {
                host,
                number,
                seconds,
            });
        }
        result
    }

    async fn sent(&self, message: &Outgoing) -> Result<Option<String>, EntryError> {
        let number = number_of(&message.body);
        let result = self.queue.send_tracked(std::slice::from_ref(message)).await;
        let result = result.unwrap_or_else(|error| panic!("{error}")).remove(0);
        let host = self.host.id;
        if let Ok(id) = &result {
            self.world().named(id.as_deref(), number);
            let reason = message.attributes.get("BackstopReason");
            let reason = reason.map(backstop_queue::Attribute::to_text);
            self.world().happened(if self.dead {
                Event::Letter {
                    host,
                    number,
                    reason,
                }
            } else {
                Event::Copied { host, number }
            });
        }
        result
    }
}

fn one(results: BatchResult) -> Result<(), EntryError> {
    results.unwrap_or_else(|error| panic!("{error}")).remove(0)
}

#[async_trait]
impl Queue for Link {
    fn url(&self) -> &str {
        self.queue.url()
    }

    fn now(&self) -> Timestamp {
        self.queue.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        let mut description = self.queue.describe().await?;
        description.arn = format!("arn:aws:sqs:sim:000000000000:{}", self.url());
        Ok(description)
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        const OPERATION: &str = "ReceiveMessage";
        let fate = self.there(OPERATION).await?;
        let (world, host) = (self.world(), self.host.id);
        if world.strikes(Kind::EmptyReceives, (1, 2)) {
            sleep(wait).await;
            self.host.lives().await;
            return Ok(Vec::new());
        }
        let mut messages = self.queue.receive(max, wait, visibility).await?;
        for message in &messages {
            world.handed(message);
            let (number, count) = (number_of(&message.body), message.receive_count.get());
            world.happened(Event::Received {
                host,
                number,
                count,
            });
            if world.strikes(Kind::Duplicates, (1, 3)) {
                world.duplicate(message);
            }
        }
        let more = world.take_duplicates(max - messages.len());
        for message in &more {
            let number = number_of(&message.body);
            world.happened(Event::Duplicated { host, number });
        }
        messages.extend(more);
        for message in &messages {
            if matches!(fate, Fate::Lost) {
                self.faulty(OPERATION, Some(number_of(&message.body)));
            }
        }
        self.back(OPERATION, fate).await?;
        Ok(messages)
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        const OPERATION: &str = "DeleteMessageBatch";
        let numbers = handles.iter().map(|it| self.world().number_of_handle(it));
        let (fate, fails) = self.batch(OPERATION, numbers.collect()).await?;
        let mut results = Vec::new();
        for (handle, fails) in handles.iter().zip(fails) {
            results.push(if fails {
                Err(failed())
            } else {
                self.deleted(handle).await
            });
        }
        self.back(OPERATION, fate).await?;
        Ok(results)
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        const OPERATION: &str = "ChangeMessageVisibilityBatch";
        let numbers = changes
            .iter()
            .map(|it| self.world().number_of_handle(&it.0));
        let (fate, fails) = self.batch(OPERATION, numbers.collect()).await?;
        let mut results = Vec::new();
        for ((handle, timeout), fails) in changes.iter().zip(fails) {
            results.push(if fails {
                Err(failed())
            } else {
                self.hidden(handle, *timeout).await
            });
        }
        self.back(OPERATION, fate).await?;
        Ok(results)
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        const OPERATION: &str = "SendMessageBatch";
        let numbers = messages.iter().map(|it| number_of(&it.body));
        let (fate, fails) = self.batch(OPERATION, numbers.collect()).await?;
        let mut results = Vec::new();
        for (message, fails) in messages.iter().zip(fails) {
            results.push(if fails {
                Err(failed())
            } else {
                self.sent(message).await
            });
        }
        self.back(OPERATION, fate).await?;
        Ok(results)
    }
}

fn failed() -> EntryError {
    EntryError::new("InternalError", "try again", false)
}
