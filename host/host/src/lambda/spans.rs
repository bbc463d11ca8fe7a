//! The spans of the retry handler: one for each record that is handled, and one for each invocation.

use backstop_functions::Event;
use backstop_traces::{Destination, Kind, Span, Start, TraceContext, Under};

use super::message::EVENT_BYTES;
use super::retry_queue::RetryQueue;
use crate::queue::{BATCH_BYTES, Message};

/// How far an event has to be from the limits so that its envelope carries spans: more than all that an envelope has.
const ROOM: usize = 4 << 10;

/// The span of a record. The first receive continues the trace of the attempt that failed; a later one, which may come after hours, begins a trace with links to the event's first attempt and to the last one. The envelope of the next attempt carries both on.
pub(super) fn process(queue: &RetryQueue, message: &Message, event: Option<&mut Event>) -> Span {
    let parse = |text: Option<&str>| text.and_then(TraceContext::of_traceparent);
    let (first, last) = event.as_ref().map_or((None, None), |event| {
        let (first, last) = event.traceparents();
        (parse(first), parse(last))
    });
    let sender = message.creation();
    // Lambda writes the trace on a record only if it is on for the function.
    let failed = sender.as_ref().map(|it| it.context).or(last);
    let span = Span::start(|| {
        let at = &queue.settler.place;
        let is_first = message.receive_count.get() == 1 && message.envelope.is_none();
        let previous = message.previous();
        match sender.clone().or(last.map(Into::into)) {
            Some(sender) if is_first && previous.is_none() => {
                let links = first.filter(|first| *first != sender.context);
                Start::new(Kind::Process, at, Under::Sender(sender)).linked(links)
            }
            _ => {
                let first = first.filter(|first| Some(*first) != failed);
                let links = failed.into_iter().chain(first).chain(previous);
                Start::new(Kind::Process, at, Under::Nothing).linked(links)
            }
        }
    });
    if let Some(event) = event {
        span.record(|attributes| {
            attributes.text("messaging.message.id", &event.id);
            attributes.number("messaging.message.body.size", message.body.len());
            attributes.number("backstop.attempt", event.next_attempt().get() - 1);
            attributes.text("faas.invoked_name", &event.record.function);
        });
        if let Some(span) = span.context().filter(|_| has_room(queue, message, event)) {
            let sender = failed.map(|it| it.to_string());
            event.continue_trace(sender, Some(span.to_string()));
        }
    }
    span
}

/// Whether the next envelope may carry spans on: no event is given up for the want of a link.
fn has_room(queue: &RetryQueue, message: &Message, event: &Event) -> bool {
    let most = queue.description.max_message_bytes.min(BATCH_BYTES);
    message.body.len() + ROOM <= most && event.record.event.get().len() + ROOM <= EVENT_BYTES
}

/// The span of an invocation.
pub(super) fn invocation(function: &str) -> Span {
    let at = Destination::function(function);
    Span::start(|| Start::new(Kind::Invoke, &at, Under::Current))
}
