//! The messages of a local queue, in the order in which they were sent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::super::{EntryError, Message, Outgoing, ReceiptHandle, VisibilityTimeout};
use super::ids::Ids;
use backstop_core::failure::Timestamp;

/// How long SQS remembers a deduplication id.
const DEDUPLICATION_INTERVAL: Duration = Duration::from_secs(300);

/// The approximate memory of a message in addition to its own bytes.
const OVERHEAD: usize = 1024;

/// A stored message.
#[derive(Debug)]
pub(super) struct Stored {
    id: String,
    message: Outgoing,
    sent: Timestamp,
    first_received: Option<Timestamp>,
    receive_count: u32,
    visible_from: Instant,
    /// The queue whose redrive policy moved it here.
    moved_from: Option<String>,
    /// The handle and the time of the last receive.
    receipt: Option<(ReceiptHandle, Instant)>,
}

impl Stored {
    /// The approximate memory that it takes, in bytes.
    fn bytes(&self) -> usize {
        self.message.size() + OVERHEAD
    }

    fn is_visible(&self) -> bool {
        self.visible_from <= Instant::now()
    }

    fn is_in_flight(&self) -> bool {
        self.receipt.is_some() && !self.is_visible()
    }
}

/// The result of a receive.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) messages: Vec<Message>,
    /// Messages that were received too often, for the dead-letter queue.
    pub(super) redriven: Vec<Stored>,
}

#[derive(Debug, Default)]
pub(super) struct Messages {
    messages: BTreeMap<u64, Stored>,
    visible: BTreeSet<u64>,
    /// With the time from which each is visible.
    invisible: BTreeSet<(Instant, u64)>,
    /// With the time when each was sent.
    by_age: BTreeSet<(Timestamp, u64)>,
    /// The bytes of all messages.
    bytes: usize,
    next: u64,
    /// The current handle of each message that was received.
    handles: HashMap<ReceiptHandle, u64>,
    /// How many received messages are invisible, in all and by group.
    in_flight: usize,
    in_flight_by_group: HashMap<String, usize>,
    deduplicated: HashMap<String, Timestamp>,
}

impl Messages {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether a message fits if all messages together may take `max_bytes`.
    pub(super) fn fits(&self, message: &Outgoing, max_bytes: usize) -> bool {
        self.bytes + message.size() + OVERHEAD <= max_bytes
    }

    /// Adds a message, unless it duplicates one that a FIFO queue accepted within the last five minutes. Returns its id.
    pub(super) fn put(
        &mut self,
        message: Outgoing,
        now: Timestamp,
        fifo: bool,
        ids: &Ids,
    ) -> Option<String> {
        if fifo {
            self.deduplicated
                .retain(|_, sent| now.since(*sent) < DEDUPLICATION_INTERVAL);
            let id = message
                .deduplication_id
                .clone()
                .unwrap_or_else(|| hex::encode(Sha256::digest(message.body.as_bytes())));
            if self.deduplicated.contains_key(&id) {
                return None;
            }
            self.deduplicated.insert(id, now);
        }
        let id = ids.next();
        let stored = Stored {
            id: id.clone(),
            visible_from: Instant::now() + message.delay.unwrap_or_default(),
            message,
            sent: now,
            first_received: None,
            receive_count: 0,
            moved_from: None,
            receipt: None,
        };
        self.add(stored);
        Some(id)
    }

    /// Adds a message that another queue's redrive policy moved here, with its id, age and receive count.
    pub(super) fn put_moved(&mut self, stored: Stored, from: &str) {
        self.add(Stored {
            moved_from: Some(from.to_owned()),
            receipt: None,
            visible_from: Instant::now(),
            ..stored
        });
    }

    fn add(&mut self, stored: Stored) {
        self.bytes += stored.bytes();
        self.by_age.insert((stored.sent, self.next));
        if stored.is_visible() {
            self.visible.insert(self.next);
        } else {
            self.invisible.insert((stored.visible_from, self.next));
        }
        self.messages.insert(self.next, stored);
        self.next += 1;
    }

    pub(super) fn drop_expired(&mut self, now: Timestamp, retention: Duration) {
        while let Some((sent, index)) = self.by_age.first().copied()
            && now.since(sent) >= retention
        {
            self.remove(index);
        }
    }

    /// Makes messages visible whose time has come.
    pub(super) fn wake(&mut self) {
        let now = Instant::now();
        while let Some((visible_from, index)) = self.invisible.first().copied()
            && visible_from <= now
        {
            self.invisible.remove(&(visible_from, index));
            self.visible.insert(index);
            self.count_in_flight(index, false);
        }
    }

    /// How many messages can be received.
    pub(super) fn visible(&self) -> usize {
        self.visible.len()
    }

    /// How many received messages are invisible.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many messages were sent with a delay that is not over.
    pub(super) fn delayed(&self) -> usize {
        self.invisible.len().saturating_sub(self.in_flight)
    }

    /// Counts an invisible message as in flight, or no longer, if it was received.
    fn count_in_flight(&mut self, index: u64, more: bool) {
        let stored = self.messages.get(&index);
        let Some(stored) = stored.filter(|stored| stored.receipt.is_some()) else {
            return;
        };
        let group = stored.message.group.clone().unwrap_or_default();
        let by_group = self.in_flight_by_group.entry(group.clone()).or_default();
        if more {
            self.in_flight += 1;
            *by_group += 1;
        } else {
            self.in_flight -= 1;
            *by_group -= 1;
        }
        if *by_group == 0 {
            self.in_flight_by_group.remove(&group);
        }
    }

    /// Receives at most `max` visible messages in order. A FIFO group is blocked while one of its messages is in flight.
    pub(super) fn take(
        &mut self,
        max: usize,
        visibility: VisibilityTimeout,
        max_receive_count: Option<NonZeroU32>,
        now: Timestamp,
        fifo: bool,
    ) -> Taken {
        let mut taken = Taken::default();
        let (mut received, mut redriven) = (Vec::new(), Vec::new());
        for index in &self.visible {
            if received.len() == max {
                break;
            }
            let Some(stored) = self.messages.get(index) else {
                continue;
            };
            let group = stored.message.group.as_deref().unwrap_or_default();
            if fifo && self.in_flight_by_group.contains_key(group) {
                continue;
            }
            if max_receive_count.is_some_and(|most| stored.receive_count >= most.get()) {
                redriven.push(*index);
            } else {
                received.push(*index);
            }
        }
        for index in received {
            taken.messages.extend(self.receive(index, visibility, now));
        }
        taken.redriven = redriven
            .iter()
            .filter_map(|index| self.remove(*index))
            .collect();
        taken
    }

    fn receive(
        &mut self,
        index: u64,
        visibility: VisibilityTimeout,
        now: Timestamp,
    ) -> Option<Message> {
        let stored = self.messages.get_mut(&index)?;
        if let Some((old, _)) = stored.receipt.take() {
            self.handles.remove(&old);
        }
        let handle = ReceiptHandle(uuid::Uuid::new_v4().to_string().into());
        self.handles.insert(handle.clone(), index);
        stored.receipt = Some((handle.clone(), Instant::now()));
        stored.receive_count += 1;
        stored.first_received.get_or_insert(now);
        stored.visible_from = Instant::now() + visibility.as_duration();
        let message = received(stored, handle, now);
        self.visible.remove(&index);
        self.invisible.insert((stored.visible_from, index));
        self.count_in_flight(index, true);
        Some(message)
    }

    /// When the next invisible message becomes visible.
    pub(super) fn next_visible(&self) -> Option<Instant> {
        self.invisible
            .first()
            .map(|(visible_from, _)| *visible_from)
    }

    /// Deletes a message by its current handle. As on SQS, an outdated handle succeeds without effect.
    pub(super) fn delete(&mut self, handle: &ReceiptHandle) -> Result<(), EntryError> {
        check(handle)?;
        if let Some(index) = self.handles.get(handle).copied() {
            self.remove(index);
        }
        Ok(())
    }

    pub(super) fn change_visibility(
        &mut self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
    ) -> Result<(), EntryError> {
        check(handle)?;
        let index = self.handles.get(handle).copied();
        let stored = index.and_then(|index| Some((index, self.messages.get_mut(&index)?)));
        let Some((index, stored, received)) = stored.and_then(|(index, stored)| {
            let (_, received) = stored.receipt.as_ref()?;
            let received = *received;
            stored.is_in_flight().then_some((index, stored, received))
        }) else {
            let text = format!(
                "Value {} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.",
                handle.0
            );
            return Err(EntryError::new("InvalidParameterValue", text, true));
        };
        let until = Instant::now() + timeout.as_duration();
        if until.duration_since(received) > VisibilityTimeout::MAX.as_duration() {
            let text = format!(
                "Value {} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
                timeout.seconds(),
            );
            return Err(EntryError::new("InvalidParameterValue", text, true));
        }
        self.invisible.remove(&(stored.visible_from, index));
        self.invisible.insert((until, index));
        stored.visible_from = until;
        Ok(())
    }

    fn remove(&mut self, index: u64) -> Option<Stored> {
        if !self.visible.remove(&index) {
            let visible_from = self.messages.get(&index)?.visible_from;
            self.invisible.remove(&(visible_from, index));
            self.count_in_flight(index, false);
        }
        let stored = self.messages.remove(&index)?;
        self.by_age.remove(&(stored.sent, index));
        self.bytes -= stored.bytes();
        if let Some((handle, _)) = &stored.receipt {
            self.handles.remove(handle);
        }
        Some(stored)
    }
}

/// Checks the format of a handle: local queues use UUIDs.
fn check(handle: &ReceiptHandle) -> Result<(), EntryError> {
    uuid::Uuid::parse_str(&handle.0).map(|_| ()).map_err(|_| {
        let text = format!(
            "The input receipt handle \"{}\" is not a valid receipt handle.",
            handle.0
        );
        EntryError::new("ReceiptHandleIsInvalid", text, true)
    })
}

fn received(stored: &Stored, receipt_handle: ReceiptHandle, now: Timestamp) -> Message {
    let message = &stored.message;
    Message {
        id: stored.id.clone(),
        receipt_handle,
        body: message.body.clone(),
        attributes: message.attributes.clone(),
        receive_count: NonZeroU32::new(stored.receive_count).unwrap_or(NonZeroU32::MIN),
        sent: stored.sent,
        kept_since: stored.sent,
        first_received: stored.first_received.unwrap_or(now),
        received: Instant::now(),
        sender: None,
        group: message.group.clone(),
        deduplication_id: message.deduplication_id.clone(),
        trace_header: message.trace_header.clone(),
        dead_letter_source: stored.moved_from.clone(),
        envelope: None,
        received_in: None,
    }
}
