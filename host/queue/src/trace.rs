//! The trace context that a message carries: the span of its sender, and the one of its attempt before. Both may be anybody's text: what is invalid is none.

use crate::dead_letter::TRACE;
use crate::{Attribute, Message};
use backstop_traces::{Creation, TRACEPARENT, TRACESTATE, TraceContext};

impl Message {
    /// The span that sent it first, as its sender has written it on the message.
    pub fn creation(&self) -> Option<Creation> {
        let text = |name| text_of(self.attributes.get(name)?);
        let xray = self.trace_header.as_deref();
        Creation::read(text(TRACEPARENT), text(TRACESTATE), xray)
    }

    /// The same, as far as it is written as W3C's trace context.
    pub fn w3c(&self) -> Option<Creation> {
        let text = |name| text_of(self.attributes.get(name)?);
        Creation::read(text(TRACEPARENT), text(TRACESTATE), None)
    }

    /// The span of its attempt before, or of its redrive, as far as the message itself carries it.
    pub fn previous(&self) -> Option<TraceContext> {
        let carried = self.envelope.as_ref().and_then(|it| it.trace);
        carried.or_else(|| TraceContext::of_traceparent(text_of(self.attributes.get(TRACE)?)?))
    }
}

fn text_of(attribute: &Attribute) -> Option<&str> {
    match attribute {
        Attribute::Text { value, .. } => Some(value),
        Attribute::Binary { .. } => None,
    }
}
