//! What a span says, by OpenTelemetry's conventions for messaging (1.45): the operation, its destination, and attributes.
//!
//! The conventions: <https://opentelemetry.io/docs/specs/semconv/messaging/>.

use std::sync::Arc;
use std::time::SystemTime;

use crate::{Creation, TraceContext};

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Messages are received.
    Receive,
    /// The handler works on a message.
    Process,
    /// A policy decides about a failure.
    Decide,
    /// A message is deleted or hidden; the word says which.
    Settle(&'static str),
    /// A message is sent: again, or as a dead letter.
    Send,
    /// A function is invoked.
    Invoke,
    /// Messages that wait are made visible.
    Wake,
    /// Dead letters are sent back.
    Redrive,
}

impl Kind {
    /// The first word of the span's name, and its `messaging.operation.name`.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Process => "process",
            Self::Decide => "decide",
            Self::Settle(request) => request,
            Self::Send => "send",
            Self::Invoke => "invoke",
            Self::Wake => "wake",
            Self::Redrive => "redrive",
        }
    }

    /// Its `messaging.operation.type`, for what the conventions know.
    pub fn operation_type(self) -> Option<&'static str> {
        match self {
            Self::Receive => Some("receive"),
            Self::Process => Some("process"),
            Self::Settle(_) | Self::Wake => Some("settle"),
            Self::Send | Self::Redrive => Some("send"),
            Self::Decide | Self::Invoke => None,
        }
    }
}

/// Where messages are sent to or received from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination(Arc<Place>);

/// What a function is, which gets no messages.
const LAMBDA: &str = "aws_lambda";

#[derive(Debug, PartialEq, Eq)]
struct Place {
    system: &'static str,
    name: String,
    url: Option<String>,
    server: Option<String>,
}

impl Destination {
    /// The queue with this URL, or `local:NAME`.
    pub fn queue(url: &str) -> Self {
        let name = url.rsplit(['/', ':']).next().unwrap_or(url).to_owned();
        let place = match url.split_once("://") {
            Some((_, rest)) => Place {
                system: "aws_sqs",
                server: rest.split('/').next().map(str::to_owned),
                url: Some(url.to_owned()),
                name,
            },
            None => Place {
                system: "local",
                server: None,
                url: None,
                name,
            },
        };
        Self(Arc::new(place))
    }

    /// The Lambda function with this name or ARN.
    pub fn function(name: &str) -> Self {
        Self(Arc::new(Place {
            system: LAMBDA,
            name: name.to_owned(),
            url: None,
            server: None,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What its spans say of it, and of an operation on it.
    #[cfg(any(feature = "otlp", test))]
    pub(crate) fn attributes(&self, kind: Kind) -> Attributes {
        let Place {
            system,
            name,
            url,
            server,
        } = &*self.0;
        let mut attributes = Attributes::default();
        if *system == LAMBDA {
            attributes.text("faas.invoked_name", name);
            attributes.text("faas.invoked_provider", "aws");
            return attributes;
        }
        attributes.text("messaging.system", *system);
        attributes.text("messaging.destination.name", name);
        if let Some(operation_type) = kind.operation_type() {
            attributes.text("messaging.operation.name", kind.operation());
            attributes.text("messaging.operation.type", operation_type);
        }
        if let Some(url) = url {
            attributes.text("aws.sqs.queue.url", url);
        }
        if let Some((address, port)) = server.as_deref().map(address) {
            attributes.text("server.address", address);
            if let Some(port) = port {
                attributes.number("server.port", port);
            }
        }
        attributes
    }
}

/// A host and its port.
#[cfg(any(feature = "otlp", test))]
fn address(server: &str) -> (&str, Option<i64>) {
    let split = server.rsplit_once(':');
    let split = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    split.map_or((server, None), |(host, port)| (host, Some(port)))
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// An integer.
    Number(i64),
    /// A number, such as one of seconds.
    Seconds(f64),
}

/// Attributes of a span, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(pub(crate) Vec<(&'static str, Value)>);

impl Attributes {
    /// Adds a text.
    pub fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, Value::Text(value.into())));
    }

    /// Adds an integer.
    pub fn number(&mut self, name: &'static str, value: impl TryInto<i64>) {
        let value = value.try_into().unwrap_or(i64::MAX);
        self.0.push((name, Value::Number(value)));
    }

    /// Adds a time in seconds.
    pub fn seconds(&mut self, name: &'static str, value: f64) {
        self.0.push((name, Value::Seconds(value)));
    }
}

/// What a span belongs to.
#[derive(Debug, Clone)]
pub enum Under {
    /// It begins a trace.
    Nothing,
    /// It continues the trace of whoever sent the message.
    Sender(Creation),
    /// It is a part of the span in whose [scope](crate::Span::scope) it starts. Without one, it is not recorded.
    Current,
}

/// A span that starts.
#[derive(Debug)]
pub struct Start<'a> {
    /// What it is about.
    pub kind: Kind,
    /// Where.
    pub at: &'a Destination,
    /// What it belongs to.
    pub under: Under,
    /// The spans that led to it, in other traces.
    pub links: Vec<TraceContext>,
    /// Further ones, which say nothing about whether it is recorded.
    pub others: Vec<TraceContext>,
    /// When it began, if that is over.
    pub since: Option<SystemTime>,
}

impl<'a> Start<'a> {
    /// A span at this place, without links.
    pub fn new(kind: Kind, at: &'a Destination, under: Under) -> Self {
        Self {
            kind,
            at,
            under,
            links: Vec::new(),
            others: Vec::new(),
            since: None,
        }
    }

    /// With a link to each of these, whether they are recorded or not.
    pub fn beside(mut self, others: impl IntoIterator<Item = TraceContext>) -> Self {
        self.others.extend(others);
        self
    }

    /// With a link to each of these. Without a parent, the first one decides whether the span is recorded.
    pub fn linked(mut self, links: impl IntoIterator<Item = TraceContext>) -> Self {
        self.links.extend(links);
        self
    }

    /// As a span that began earlier.
    pub fn since(self, began: Option<SystemTime>) -> Self {
        Self {
            since: began,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_described_by_the_conventions() {
        let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
        let found = Destination::queue(url).attributes(Kind::Receive);
        let text = |name, value: &str| (name, Value::Text(value.to_owned()));
        let expected = [
            text("messaging.system", "aws_sqs"),
            text("messaging.destination.name", "orders"),
            text("messaging.operation.name", "receive"),
            text("messaging.operation.type", "receive"),
            text("aws.sqs.queue.url", url),
            text("server.address", "sqs.eu-west-1.amazonaws.com"),
        ];
        assert_eq!(found.0, expected);
        let local = Destination::queue("local:try").attributes(Kind::Settle("delete"));
        let expected = [
            text("messaging.system", "local"),
            text("messaging.destination.name", "try"),
            text("messaging.operation.name", "delete"),
            text("messaging.operation.type", "settle"),
        ];
        assert_eq!(local.0, expected);
    }

    #[test]
    fn the_port_of_a_server_is_a_number() {
        assert_eq!(address("127.0.0.1:4566"), ("127.0.0.1", Some(4566)));
        assert_eq!(address("[::1]"), ("[::1]", None));
        assert_eq!(address("sqs"), ("sqs", None));
    }
}
