//! A queue in the host's memory with SQS's semantics: visibility, receive counts, redrive, FIFO groups, deduplication, batch limits. For trying Backstop without an AWS account, and for testing a handler.
//!
//! It uses tokio's clock, which tests can pause.

mod ids;
mod messages;
mod time_of_day;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::lock::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::limits::{BATCH_BYTES, BATCH_ENTRIES, LONGEST_SEND_DELAY, MAX_ATTRIBUTES, is_allowed};
use super::{
    BatchResult, Description, EntryError, Message, Outgoing, Queue, QueueError, ReceiptHandle,
    Redrive, TrackedResult, VisibilityTimeout,
};
use backstop_core::failure::{Milliseconds, Timestamp};
use ids::Ids;
use messages::Messages;
use time_of_day::TimeOfDay;

/// The settings of a local queue.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// How long a received message stays invisible by default; 30 s unless set.
    pub visibility_timeout: VisibilityTimeout,
    /// How long messages are kept; 4 days by default.
    pub retention: Duration,
    /// The memory for its messages, in bytes; 1 GiB by default. Further messages are rejected.
    pub max_bytes: usize,
    /// The number of messages in flight from which no more are delivered; 120,000 by default, as on SQS.
    pub max_in_flight: usize,
    /// The dead-letter queue, and the number of receives after which a message is moved there; none by default.
    pub redrive: Option<(Arc<LocalQueue>, NonZeroU32)>,
    /// What the ids of its messages derive from, together with its name; random by default. A policy's randomness derives from the ids, so the same seed has the same delays.
    pub seed: Option<u64>,
    /// The time of day at which it is created; the right one by default.
    pub begin: Option<Timestamp>,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            visibility_timeout: VisibilityTimeout::rounded_up(Duration::from_secs(30)),
            retention: Duration::from_secs(4 * 86_400),
            max_bytes: 1 << 30,
            max_in_flight: 120_000,
            redrive: None,
            seed: None,
            begin: None,
        }
    }
}

/// The local queues of a process, by name.
#[derive(Debug, Clone, Default)]
pub struct LocalQueues {
    queues: Arc<Mutex<BTreeMap<String, Arc<LocalQueue>>>>,
    settings: LocalSettings,
}

impl LocalQueues {
    /// Queues that are created with these settings, unless they are [set up](Self::set_up).
    pub fn with(settings: LocalSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The queue with this name (without `local:`). Creates it if it does not exist.
    pub fn named(&self, name: &str) -> Arc<LocalQueue> {
        let mut queues = lock(&self.queues);
        let queue = queues.entry(name.to_owned());
        Arc::clone(queue.or_insert_with(|| LocalQueue::new(name, self.settings.clone())))
    }

    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<String, Arc<LocalQueue>> {
        lock(&self.queues).clone()
    }

    /// Creates an empty queue with this name (without `local:`) and these settings. It replaces an existing one.
    pub fn set_up(&self, name: &str, settings: LocalSettings) -> Arc<LocalQueue> {
        let queue = LocalQueue::new(name, settings);
        let mut queues = lock(&self.queues);
        queues.insert(name.to_owned(), Arc::clone(&queue));
        queue
    }
}

/// A local queue. It is a FIFO queue if its name ends in `.fifo`.
#[derive(Debug)]
pub struct LocalQueue {
    url: String,
    fifo: bool,
    settings: LocalSettings,
    time_of_day: TimeOfDay,
    ids: Ids,
    messages: Mutex<Messages>,
    changed: Notify,
}

impl LocalQueue {
    /// Creates an empty queue.
    pub fn new(name: &str, settings: LocalSettings) -> Arc<Self> {
        Arc::new(Self {
            url: format!("local:{name}"),
            fifo: name.ends_with(".fifo"),
            time_of_day: TimeOfDay::start(settings.begin),
            ids: Ids::of(name, settings.seed),
            settings,
            messages: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// The number of messages, including invisible ones.
    pub fn len(&self) -> usize {
        self.messages().len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until there are no messages, including invisible ones.
    pub async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn messages(&self) -> MutexGuard<'_, Messages> {
        lock(&self.messages)
    }

    /// Receives visible messages, and moves those that were received too often. Also returns when the next message becomes visible.
    fn take(&self, max: usize, visibility: VisibilityTimeout) -> (Vec<Message>, Option<Instant>) {
        let now = self.time_of_day.now();
        let most = self.settings.redrive.as_ref().map(|(_, most)| *most);
        let mut messages = self.messages();
        messages.drop_expired(now, self.settings.retention);
        messages.wake();
        let left = self
            .settings
            .max_in_flight
            .saturating_sub(messages.in_flight());
        let taken = messages.take(max.min(left), visibility, most, now, self.fifo);
        let next = messages.next_visible();
        drop(messages);
        if let Some((dead_letters, _)) = &self.settings.redrive {
            for message in taken.redriven {
                dead_letters.messages().put_moved(message, &self.url);
                dead_letters.changed.notify_waiters();
                self.changed.notify_waiters();
            }
        }
        (taken.messages, next)
    }

    /// Checks a message. The errors are those of SQS.
    fn check(&self, message: &Outgoing) -> Result<(), EntryError> {
        let invalid = |text: String| Err(EntryError::new("InvalidParameterValue", text, true));
        if message.size() > BATCH_BYTES {
            return invalid(format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {BATCH_BYTES} bytes."
            ));
        }
        if message.body.is_empty() {
            return Err(EntryError::new(
                "MissingParameter",
                "The request must contain the parameter MessageBody.",
                true,
            ));
        }
        if !message.body.chars().all(is_allowed) {
            return Err(EntryError::new(
                "InvalidMessageContents",
                "Invalid characters found in the message body.",
                true,
            ));
        }
        if message.attributes.len() > MAX_ATTRIBUTES {
            return invalid(format!(
                "Number of message attributes [{}] exceeds the allowed maximum [{MAX_ATTRIBUTES}].",
                message.attributes.len()
            ));
        }
        let delay = message.delay.unwrap_or_default();
        if delay > LONGEST_SEND_DELAY || (self.fifo && !delay.is_zero()) {
            return invalid(format!(
                "Value {} for parameter DelaySeconds is invalid. Reason: Must be between 0 and 900, and 0 on a FIFO queue.",
                delay.as_secs()
            ));
        }
        if self.fifo && message.group.is_none() {
            return Err(EntryError::new(
                "MissingParameter",
                "The request must contain the parameter MessageGroupId.",
                true,
            ));
        }
        Ok(())
    }
}

/// Checks the number of a batch's entries.
fn check_batch<T>(operation: &'static str, entries: &[T]) -> Result<(), QueueError> {
    match entries.len() {
        0 => Err(QueueError::new(
            operation,
            "UnsupportedOperation",
            "There should be at least one entry in the request.",
        )),
        1..=BATCH_ENTRIES => Ok(()),
        more => Err(QueueError::new(
            operation,
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            format!(
                "Maximum number of entries per request are {BATCH_ENTRIES}. You have sent {more}."
            ),
        )),
    }
}

#[async_trait]
impl Queue for LocalQueue {
    fn url(&self) -> &str {
        &self.url
    }

    fn now(&self) -> Timestamp {
        self.time_of_day.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        let (in_flight, visible, delayed) = {
            let mut messages = self.messages();
            messages.wake();
            (messages.in_flight(), messages.visible(), messages.delayed())
        };
        Ok(Description {
            arn: self.url.clone(),
            fifo: self.fifo,
            visibility_timeout: self.settings.visibility_timeout,
            retention: Milliseconds::from_duration(self.settings.retention),
            max_message_bytes: BATCH_BYTES,
            visible: Some(visible),
            in_flight: Some(in_flight),
            redrive: self.settings.redrive.as_ref().map(|(queue, most)| Redrive {
                dead_letter_arn: queue.url.clone(),
                max_receive_count: *most,
            }),
            delay: Milliseconds(0),
            delayed: Some(delayed),
            access_policy: None,
        })
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        if !(1..=BATCH_ENTRIES).contains(&max) {
            let range = format!(
                "Value {max} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
            );
            return Err(QueueError::new(
                "ReceiveMessage",
                "InvalidParameterValue",
                range,
            ));
        }
        let end = Instant::now() + wait.min(Duration::from_secs(20));
        loop {
            let changed = self.changed.notified();
            let (messages, next) = self.take(max, visibility);
            let is_full = || self.messages().in_flight() >= self.settings.max_in_flight;
            if messages.is_empty() && wait.is_zero() && is_full() {
                return Err(QueueError::new(
                    "ReceiveMessage",
                    "OverLimit",
                    "Too many messages in flight",
                ));
            }
            if !messages.is_empty() || Instant::now() >= end {
                return Ok(messages);
            }
            let until = next.map_or(end, |next| next.min(end));
            // Waits until the queue changes or a message becomes visible.
            let _ = timeout_at(until, changed).await;
        }
    }

    fn receive_is_cancel_safe(&self) -> bool {
        true
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        check_batch("DeleteMessageBatch", handles)?;
        let mut messages = self.messages();
        let results = handles
            .iter()
            .map(|handle| messages.delete(handle))
            .collect();
        drop(messages);
        self.changed.notify_waiters();
        Ok(results)
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        check_batch("ChangeMessageVisibilityBatch", changes)?;
        let mut messages = self.messages();
        let results = changes
            .iter()
            .map(|(handle, timeout)| messages.change_visibility(handle, *timeout))
            .collect();
        drop(messages);
        self.changed.notify_waiters();
        Ok(results)
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        check_batch("SendMessageBatch", messages)?;
        let total: usize = messages.iter().map(Outgoing::size).sum();
        if messages.len() > 1 && total > BATCH_BYTES {
            return Err(QueueError::new(
                "SendMessageBatch",
                "AWS.SimpleQueueService.BatchRequestTooLong",
                format!(
                    "Batch requests cannot be longer than {BATCH_BYTES} bytes. You have sent {total} bytes."
                ),
            ));
        }
        let now = self.time_of_day.now();
        let results = messages
            .iter()
            .map(|message| {
                self.check(message)?;
                let mut messages = self.messages();
                if !messages.fits(message, self.settings.max_bytes) {
                    let text = format!(
                        "the local queue is full: its messages may take {} bytes of memory",
                        self.settings.max_bytes
                    );
                    return Err(EntryError::new("OverLimit", text, false));
                }
                Ok(messages.put(message.clone(), now, self.fifo, &self.ids))
            })
            .collect();
        self.changed.notify_waiters();
        Ok(results)
    }
}
