//! Who put a message into a dead-letter queue, recognised by its attributes and its body.

use std::str::FromStr;

use backstop_json::Object;
use backstop_queue::Message;
use serde::Serialize;

backstop_core::names! {
    /// Who put a message into a dead-letter queue.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Origin {
        /// A host of Backstop, as a policy or a limit decided. Its attributes say why.
        Backstop = "backstop",
        /// The redrive policy of an SQS queue, because a message was received too often. Nobody knows its error.
        Sqs = "sqs",
        /// A Lambda function's `DeadLetterConfig`: the event, and the error in attributes.
        LambdaDeadLetter = "lambda-dead-letter",
        /// A Lambda function's on-failure destination: a record with the event and the function's response.
        LambdaDestination = "lambda-destination",
        /// The redrive policy of a subscription to an SNS topic.
        Sns = "sns",
        /// Somebody else.
        Unknown = "unknown",
    }
}

impl Origin {
    /// The origin of a message.
    ///
    /// Lambda writes the attributes `RequestID`, `ErrorCode` (the HTTP status of the invocation, as a number) and `ErrorMessage`, with the event as the body. SNS writes the notification as the body and no attributes. With raw delivery, the body is the published text with the publisher's attributes, so that nothing tells where it comes from.
    pub fn of(message: &Message) -> Self {
        let has = |name: &str| message.attributes.contains_key(name);
        // Only SQS itself can say this. Attributes of Backstop are of an earlier death then, or forged by the sender.
        if message.dead_letter_source.is_some() {
            return Self::Sqs;
        }
        if has("BackstopReason") {
            return Self::Backstop;
        }
        if has("BackstopSource") {
            return Self::Sqs;
        }
        let fields = fields(&message.body);
        if let Some(fields) = &fields
            && fields.text("TopicArn").is_some()
            && fields.text("Type").is_some_and(|it| it == "Notification")
        {
            return Self::Sns;
        }
        let code = message.attributes.get("ErrorCode");
        let is_status = code.is_some_and(|code| code.to_text().parse::<u16>().is_ok());
        if has("RequestID") && is_status {
            return Self::LambdaDeadLetter;
        }
        let context = fields.and_then(|fields| Some(fields.object("requestContext")?.len()));
        match context {
            Some(_) if function(&message.body).is_some() => Self::LambdaDestination,
            Some(_) | None => Self::Unknown,
        }
    }
}

/// The fields of a body that is a JSON object.
pub(crate) fn fields(body: &str) -> Option<Object<'_>> {
    // Most bodies that are no objects are recognised without being parsed.
    body.trim_start()
        .starts_with('{')
        .then(|| Object::parse(body).ok())?
}

/// The function that a destination record names.
pub(crate) fn function(body: &str) -> Option<String> {
    fields(body)?.object("requestContext")?.text("functionArn")
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("`{text}` is not an origin: expected one of {names}")
        })
    }
}
