//! The spans of a consumer: one for each receive that brings messages, and one for each attempt. What follows an attempt is inside of its span.

use std::time::SystemTime;

use backstop_core::clock;
use backstop_traces::{Kind, Span, Start, Under, is_on};

use super::Shared;
use crate::queue::{Message, QueueError};

/// When a poll begins, if its span will have to say so.
pub(super) fn began() -> Option<SystemTime> {
    is_on().then(clock::system)
}

/// The span of a poll that brought these messages, with a link to the sender of each. It is recorded if one of these is, and not if none is. If the traces of some messages begin here, what their senders say of the others does not decide.
pub(super) fn received(shared: &Shared, began: Option<SystemTime>, messages: &mut [Message]) {
    let span = Span::start(|| {
        let senders = messages.iter().filter_map(Message::creation);
        let mut links: Vec<_> = senders.map(|sender| sender.context).collect();
        links.sort_by_key(|link| !link.is_sampled);
        let at = &shared.settler.place;
        let start = Start::new(Kind::Receive, at, Under::Nothing).since(began);
        let is_decided = links.len() == messages.len();
        if is_decided || links.first().is_some_and(|link| link.is_sampled) {
            start.linked(links)
        } else {
            start.beside(links)
        }
    });
    span.record(|attributes| attributes.number("messaging.batch.message_count", messages.len()));
    span.end();
    let context = span.context().filter(|context| context.is_sampled);
    for message in messages {
        message.received_in = context;
    }
}

/// The span of a poll that failed.
pub(super) fn not_received(shared: &Shared, began: Option<SystemTime>, error: &QueueError) {
    let at = &shared.settler.place;
    let span = Span::start(|| Start::new(Kind::Receive, at, Under::Nothing).since(began));
    span.fail(&error.code);
}

/// The span of an attempt. The first one continues the sender's trace; a later one begins a trace, since traces of hours are of no use, with a link to the sender and to the attempt before.
pub(super) fn attempt(shared: &Shared, message: &Message) -> Span {
    let number = || shared.history.attempt(message).get();
    let span = Span::start(|| {
        let (sender, previous) = (message.creation(), shared.previous.of(message));
        let received = message.received_in;
        let at = &shared.settler.place;
        match sender {
            Some(sender) if previous.is_none() && number() == 1 => {
                Start::new(Kind::Process, at, Under::Sender(sender)).beside(received)
            }
            sender => {
                let links = sender.map(|it| it.context).into_iter();
                let links = links.chain(previous);
                Start::new(Kind::Process, at, Under::Nothing)
                    .linked(links)
                    .beside(received)
            }
        }
    });
    span.record(|attributes| {
        attributes.text("messaging.message.id", &message.id);
        attributes.number("messaging.message.body.size", message.body.len());
        attributes.number("backstop.attempt", number());
        attributes.text("backstop.queue", &shared.name);
    });
    span
}
