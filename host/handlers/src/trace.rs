//! The trace context of a message, as libraries read it: in headers, or in variables.
//!
//! While traces are recorded, a worker continues the span of its attempt. Otherwise it continues that of the sender.

use backstop_queue::Message;
use backstop_traces::{Creation, TraceContext, current};

/// What a worker gets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// W3C's `traceparent`.
    pub(super) parent: Option<String>,
    /// W3C's `tracestate`.
    pub(super) state: Option<String>,
    /// X-Ray's header, if the message has one.
    pub(super) xray: Option<String>,
}

impl Trace {
    /// That of the attempt that is made now.
    pub(super) fn of(message: &Message) -> Self {
        Self::within(current(), message)
    }

    fn within(attempt: Option<Creation>, message: &Message) -> Self {
        let header = message.trace_header.as_deref();
        match attempt {
            Some(Creation { context, state }) => Self {
                parent: Some(context.to_string()),
                state,
                xray: header.map(|header| context.xray(Some(header))),
            },
            None => {
                let sender = message.w3c();
                let parent = sender.as_ref().map(|it| it.context.to_string());
                Self {
                    parent,
                    state: sender.and_then(|it| it.state),
                    xray: header.map(str::to_owned),
                }
            }
        }
    }

    /// X-Ray's header for the invocation of a function, which reads no other. Without what counts the invocations of a chain: an attempt is none of its sender's.
    pub(super) fn for_lambda(message: &Message) -> Option<String> {
        let sender = || message.creation().map(|it| it.context);
        let context: TraceContext = current().map(|it| it.context).or_else(sender)?;
        Some(context.xray(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::{Attribute, ordinary_message};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const ATTEMPT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0b1902b7-01";
    const XRAY: &str =
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:1";

    fn message(traceparent: &str) -> Message {
        let mut message = ordinary_message();
        message.attributes = [("traceparent", traceparent), ("tracestate", "v=1")]
            .map(|(name, value)| (name.to_owned(), Attribute::string(value)))
            .into();
        message.trace_header = Some(XRAY.to_owned());
        message
    }

    #[test]
    fn without_traces_a_worker_continues_its_sender() {
        let trace = Trace::within(None, &message(PARENT));
        let expected = Trace {
            parent: Some(PARENT.to_owned()),
            state: Some("v=1".to_owned()),
            xray: Some(XRAY.to_owned()),
        };
        assert_eq!(trace, expected);
        for invalid in ["", "forged", "00-0-0-01\r\nx: y"] {
            let trace = Trace::within(None, &message(invalid));
            assert_eq!((trace.parent, trace.state), (None, None), "{invalid:?}");
        }
        assert_eq!(Trace::within(None, &ordinary_message()), Trace::default());
    }

    #[test]
    fn with_traces_a_worker_continues_the_attempt_in_both_forms() {
        let attempt = Creation {
            context: TraceContext::of_traceparent(ATTEMPT).unwrap(),
            state: None,
        };
        let trace = Trace::within(Some(attempt.clone()), &message(PARENT));
        assert_eq!(
            (trace.parent.as_deref(), trace.state),
            (Some(ATTEMPT), None)
        );
        let expected = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=00f067aa0b1902b7;Sampled=1;Lineage=a:1";
        assert_eq!(trace.xray.as_deref(), Some(expected));
        // X-Ray is for those who use it.
        let plain = Trace::within(Some(attempt), &ordinary_message());
        assert_eq!((plain.parent.as_deref(), plain.xray), (Some(ATTEMPT), None));
    }

    #[test]
    fn a_function_gets_the_header_of_x_ray_whatever_the_sender_writes() {
        let of = Trace::for_lambda;
        let w3c = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1";
        assert_eq!(of(&message(PARENT)).as_deref(), Some(w3c));
        let xray = XRAY.split(";Lineage").next();
        assert_eq!(of(&message("forged")).as_deref(), xray);
        assert_eq!(of(&ordinary_message()), None);
    }
}
