//! How a host or an operator reaches a queue: with latency, and with every fault of the plan.

mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_queue::{
    BatchResult, Description, EntryError, LocalQueue, Outgoing, Queue, QueueError, ReceiptHandle,
    VisibilityTimeout,
};
use tokio::time::sleep;

use super::history::Event;
use super::plan::Kind;
use super::world::{World, number_of};

const RECEIVE: &str = "ReceiveMessage";
const DELETE: &str = "DeleteMessageBatch";
const CHANGE: &str = "ChangeMessageVisibilityBatch";
const SEND: &str = "SendMessageBatch";

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

/// A queue of the model, as one host or operator reaches it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) host: Identity,
    pub(crate) queue: Arc<LocalQueue>,
    /// Whether it is the queue of dead letters.
    pub(crate) dead: bool,
    /// Whether an operator uses it, who moves dead letters back.
    pub(crate) of_operator: bool,
}

/// What becomes of a request.
enum Fate {
    Answered,
    Lost,
}

/// What the messages in flight count for: the limit of the model stands for that of SQS.
const LIMIT_OF_SQS: usize = 120_000;

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
        if self.dead && world.is_under_way(Kind::NoDeadLetterQueue) {
            self.faulty(operation, None);
            let text = "The specified queue does not exist.";
            let mut error = QueueError::new(operation, "QueueDoesNotExist", text);
            error.status = Some(400);
            return Err(error);
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

    /// The way of a batch to the queue, and why some of its entries fail by themselves.
    async fn batch(
        &self,
        operation: &'static str,
        numbers: Vec<u32>,
    ) -> Result<(Fate, Vec<Option<EntryError>>), QueueError> {
        let fate = self.there(operation).await?;
        let fails = numbers.into_iter().map(|number| {
            let fails = self.fails(operation);
            if fails.is_some() {
                self.faulty(operation, Some(number));
            }
            fails
        });
        let fails = fails.collect();
        Ok((fate, fails))
    }

    /// Why an entry fails by itself, if it does.
    fn fails(&self, operation: &'static str) -> Option<EntryError> {
        let world = self.world();
        if world.strikes(Kind::PartialFailures, (1, 3)) {
            return Some(EntryError::new("InternalError", "try again", false));
        }
        if operation == SEND {
            let is_refused = self.dead && world.strikes(Kind::RefusedLetters, (2, 3));
            let text = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.";
            return is_refused.then(|| EntryError::new("InvalidParameterValue", text, true));
        }
        let text = "The receipt handle has expired.";
        world
            .strikes(Kind::ExpiredHandles, (1, 2))
            .then(|| EntryError::new("ReceiptHandleIsInvalid", text, true))
    }

    /// The attributes of the queue, as SQS has them.
    pub(crate) async fn described(&self) -> Description {
        let mut description = self.queue.describe().await.unwrap();
        description.arn = format!("arn:aws:sqs:sim:000000000000:{}", self.url());
        let most = self.world().plan.most_in_flight;
        if !self.dead {
            let in_flight = description.in_flight.unwrap_or_default();
            description.in_flight = Some(in_flight * LIMIT_OF_SQS / most);
        }
        description
    }

    async fn deleted(&self, handle: &ReceiptHandle) -> Result<(), EntryError> {
        let number = self.world().number_of_handle(handle);
        let before = self.queue.len();
        let result = one(self.queue.delete(std::slice::from_ref(handle)).await);
        let host = self.host.id;
        // By an old receipt handle, a delete succeeds and does nothing.
        if self.queue.len() < before {
            self.world().happened(if self.dead {
                Event::LetterDeleted { host, number }
            } else {
                Event::Deleted { host, number }
            });
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
        if result.is_ok() && !self.dead {
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
            if self.dead {
                self.world().happened(Event::Letter {
                    host,
                    number,
                    reason,
                });
            } else if !self.of_operator {
                self.world().happened(Event::Copied { host, number });
            } else if id.is_some() {
                // One that the queue takes for a duplicate is not sent.
                self.world().happened(Event::SentBack { host, number });
            }
        }
        result
    }
}

fn one(results: BatchResult) -> Result<(), EntryError> {
    results.unwrap_or_else(|error| panic!("{error}")).remove(0)
}
