//! Who hears what happens to the messages of a queue between decisions.

use std::sync::Arc;

use crate::clock;
use crate::failure::bounded_id;
use crate::record::{EventRecord, LifeEvent, MessageIds, Observer, OtherIds, Recorded};
use backstop_queue::Message;
use backstop_queue::dead_letter::is_redriven;

/// Passes the events of one queue to the observers of its decisions. Costs nothing where nobody records them.
#[derive(Clone)]
pub struct Events {
    queue: Arc<str>,
    observers: Vec<Arc<dyn Observer>>,
    recorded: Recorded,
}

backstop_core::shown!(Events, events => queue = events.queue, recorded = events.recorded);

impl Events {
    pub(crate) fn of(queue: &str) -> Self {
        Self {
            queue: queue.into(),
            observers: Vec::new(),
            recorded: Recorded::default(),
        }
    }

    pub(crate) fn add(&mut self, observer: Arc<dyn Observer>) {
        self.observers.push(observer);
    }

    /// The queue's name.
    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    /// The observers of its decisions.
    pub(crate) fn observers(&self) -> &[Arc<dyn Observer>] {
        &self.observers
    }

    pub(crate) fn set_recorded(&mut self, recorded: Recorded) {
        self.recorded = recorded;
    }

    /// A message is done by its attempt with this number.
    pub fn succeeded(&self, message: &Message, attempt: u32, is_deleted: bool) {
        if self.observers.is_empty() {
            return;
        }
        let is_new = attempt == 1 && message.envelope.is_none() && !is_redriven(message);
        let event = LifeEvent::Succeeded {
            attempt,
            not_deleted: !is_deleted,
        };
        if self.recorded.includes(&event, is_new) {
            self.pass_on(Some(ids(&message.id, message)), event);
        }
    }

    /// Something happened to a message that has failed, and that is known by this id. `event` is called if somebody records it.
    pub fn happened(&self, id: &str, message: &Message, event: impl FnOnce() -> LifeEvent) {
        self.to_message(|| ids(id, message), event);
    }

    /// The same for an event without which the message's ids do not lead to each other: it is recorded wherever outcomes are.
    pub fn links(&self, id: &str, message: &Message, event: impl FnOnce() -> LifeEvent) {
        if !self.observers.is_empty() && self.recorded != Recorded::Decisions {
            self.pass_on(Some(ids(id, message)), event());
        }
    }

    /// Something happened to a message of which no more than its id is known.
    pub fn happened_to(&self, id: &str, event: impl FnOnce() -> LifeEvent) {
        let ids = || MessageIds {
            message_id: id.to_owned(),
            others: OtherIds::default(),
        };
        self.to_message(ids, event);
    }

    /// Something happened to the queue.
    pub fn of_queue(&self, event: LifeEvent) {
        if !self.observers.is_empty() && self.recorded.includes(&event, false) {
            self.pass_on(None, event);
        }
    }

    fn to_message(&self, ids: impl FnOnce() -> MessageIds, event: impl FnOnce() -> LifeEvent) {
        if self.observers.is_empty() || self.recorded == Recorded::Decisions {
            return;
        }
        let event = event();
        if self.recorded.includes(&event, false) {
            self.pass_on(Some(ids()), event);
        }
    }

    fn pass_on(&self, message: Option<MessageIds>, event: LifeEvent) {
        let record = EventRecord {
            time: clock::now(),
            queue: self.queue.to_string(),
            message,
            event,
        };
        for observer in &self.observers {
            observer.happened(&record);
        }
    }
}

fn ids(id: &str, message: &Message) -> MessageIds {
    let message_id = bounded_id(id).into_owned();
    MessageIds {
        others: other_ids(message).besides(&message_id),
        message_id,
    }
}

/// The ids of a message that may differ from the one by which it is known.
pub fn other_ids(message: &Message) -> OtherIds {
    let bounded = |id: &str| bounded_id(id).into_owned();
    OtherIds {
        received_as: Some(bounded(message.received_as())),
        original_id: message.original_id().as_deref().map(bounded),
    }
}
