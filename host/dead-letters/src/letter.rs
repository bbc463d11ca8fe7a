//! A message of a dead-letter queue, and what is known of its death.

use std::fmt;
use std::str::FromStr;

use backstop_core::failure::{Error, Milliseconds, Timestamp};
use backstop_functions::InvocationRecord;
use backstop_json::Object;
use backstop_queue::dead_letter::DIED;
use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{Message, MessageEnvelope};
use serde::Serialize;

use crate::fingerprint::Fingerprint;
use crate::origin::{Origin, fields, function};

/// Where a letter was before it died, and where it can be sent to again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A queue, by its ARN.
    Queue(String),
    /// A Lambda function that was invoked asynchronously, by its ARN with the version or alias.
    Function(String),
    /// A topic of SNS, by its ARN.
    Topic(String),
}

impl Source {
    /// The source with this ARN, or `local:NAME`.
    pub fn of_arn(arn: &str) -> Self {
        match arn.split(':').nth(2) {
            Some("lambda") => Self::Function(arn.to_owned()),
            Some("sns") => Self::Topic(arn.to_owned()),
            Some(_) | None => Self::Queue(arn.to_owned()),
        }
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        match self {
            Self::Queue(arn) | Self::Function(arn) | Self::Topic(arn) => arn,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.arn())
    }
}

/// A dead letter. Everything about its death is read from the message alone; `None` is what the message does not say.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The message, as it was received from the dead-letter queue.
    pub message: Message,
    /// Who put it there.
    pub origin: Origin,
    /// Where it was before.
    pub source: Option<Source>,
    /// Why it was given up.
    pub reason: Option<String>,
    /// The class of its last error, as the policy saw it.
    pub class: Option<String>,
    /// Its last error.
    pub error: Option<Error>,
    /// Whether it says the error's HTTP status, or that there was none. Hosts before this attribute did not, nor does a letter without space for it.
    pub says_status: bool,
    /// The digests of the policy that decided, separated by commas.
    pub policy: Option<String>,
    /// The number of its attempts. SQS and SNS count receives and tries of their own, not attempts.
    pub attempt: Option<u32>,
    /// When it was first sent, or its event was accepted.
    pub first_sent: Option<Timestamp>,
    /// When it died. A message that SQS has moved between standard queues does not say so.
    pub dead_since: Option<Timestamp>,
    /// The latest time at which it is known to have lived, if nobody knows when it died.
    alive: Timestamp,
    /// Identifies the message in its life: the id that decision records, logs and the sender know.
    pub original_id: String,
}

impl Letter {
    /// Reads what a message says of its death.
    pub fn of(message: Message) -> Self {
        let origin = Origin::of(&message);
        let died = restored_death(&message);
        let alive = message.sent.max(message.first_received);
        let letter = Self {
            origin,
            source: None,
            reason: None,
            class: None,
            error: None,
            says_status: false,
            policy: None,
            attempt: None,
            first_sent: None,
            dead_since: Some(died.unwrap_or(message.sent)),
            alive: died.unwrap_or(alive),
            original_id: message.id.clone(),
            message,
        };
        match origin {
            Origin::Backstop => letter.of_backstop(),
            Origin::Sqs => letter.of_sqs(),
            Origin::LambdaDeadLetter => letter.of_function(),
            Origin::LambdaDestination => letter.of_destination(),
            Origin::Sns => letter.of_topic(),
            Origin::Unknown => letter,
        }
    }

    /// The code of its last error.
    pub fn code(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.code.as_str())
    }

    /// When it died, or else the latest time at which it is known to have lived.
    pub fn last_alive(&self) -> Timestamp {
        self.dead_since.unwrap_or(self.alive)
    }

    /// What it has in common with similar letters.
    pub fn fingerprint(&self) -> Fingerprint {
        match &self.error {
            Some(error) => Fingerprint::of_error(error),
            None => Fingerprint::of_body(&self.message.body),
        }
    }

    /// The event of a Lambda function, as JSON text: what the function has to be invoked with.
    ///
    /// A destination record has it as `requestPayload`, and the letters of `DeadLetterConfig` are the event. `None` for other letters.
    pub fn event(&self) -> Option<String> {
        match self.origin {
            Origin::LambdaDeadLetter => Some(self.message.body.to_string()),
            Origin::LambdaDestination => payload(&self.message.body),
            // A letter of the Lambda retry handler.
            Origin::Backstop if function(&self.message.body).is_some() => {
                payload(&self.message.body)
            }
            Origin::Backstop | Origin::Sqs | Origin::Sns | Origin::Unknown => None,
        }
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let attribute = self.message.attributes.get(name)?;
        Some(attribute.to_text())
    }

    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.attribute(name)?.parse().ok()
    }

    fn of_backstop(mut self) -> Self {
        self.reason = self.attribute("BackstopReason");
        self.class = self.attribute("BackstopClass");
        self.policy = self.attribute("BackstopPolicy");
        let status = self.number("BackstopStatus");
        let retry_after = self.number("BackstopRetryAfter").map(Milliseconds);
        self.error = self.attribute("BackstopError").map(|text| {
            let error = parse(&text);
            let said = status.filter(|status| (100..1_000).contains(status));
            let status = said.or(error.status);
            error.status(status).retry_after(retry_after)
        });
        let has_status = self.error.as_ref().is_some_and(|it| it.status.is_some());
        self.says_status = has_status || status == Some(0);
        self.attempt = self.number("BackstopAttempt");
        let source = self.attribute("BackstopSource");
        self.source = source.map(|arn| Source::of_arn(&arn));
        self.remembered()
    }

    /// Reads the attributes that survive a restored or redriven letter.
    fn remembered(mut self) -> Self {
        if let Some(id) = self.attribute("BackstopMessageId") {
            self.original_id = id;
        }
        self.first_sent = self.number("BackstopFirstSent").map(Timestamp);
        self
    }

    fn of_sqs(mut self) -> Self {
        let restored = self.attribute("BackstopSource");
        let source = self.message.dead_letter_source.clone().or(restored);
        self.source = source.map(Source::Queue);
        self.reason = Some("moved by the redrive policy of its queue".to_owned());
        self = self.remembered();
        // A host had sent it again while it waited: it was another message at first.
        let envelope = self.attribute(ENVELOPE);
        let envelope =
            envelope.and_then(|text| backstop_json::object::<MessageEnvelope>(&text).ok());
        if let Some(envelope) = envelope {
            self.original_id = envelope.id;
            self.first_sent = self.first_sent.or(Some(envelope.sent));
            self.attempt = Some(envelope.attempts);
        }
        // SQS keeps the time of the first send when it moves a message; a FIFO queue has a new one.
        let is_fifo = self.message.group.is_some() && self.message.deduplication_id.is_some();
        if !is_fifo {
            self.dead_since = None;
            // One that was put back from an archive has that time in an attribute.
            let is_moved = self.message.dead_letter_source.is_some();
            let sent = Some(self.message.sent).filter(|_| is_moved);
            self.first_sent = self.first_sent.or(sent);
        }
        self
    }

    /// The request id, error code and error text that Lambda writes into attributes.
    fn of_function(mut self) -> Self {
        let code = self.attribute("ErrorCode").unwrap_or_default();
        let text = self.attribute("ErrorMessage").unwrap_or_default();
        // Lambda's code is the status of the invocation. Its text may be the function's response.
        let code_of = |text: &str| {
            let fields = Object::parse(text).ok()?;
            let message = fields.text("errorMessage").unwrap_or_default();
            Some(Error::reported(fields.text("errorType")?, message).code)
        };
        self.error = Some(match code_of(&text) {
            Some(code) => Error::new(code, text),
            None => {
                let status = code.parse().ok().filter(|status| *status >= 400);
                Error::new(code, text).status(status)
            }
        });
        if let Some(id) = self.attribute("RequestID") {
            self.original_id = id;
        }
        self.reason = Some("the function failed in all of Lambda's attempts".to_owned());
        self
    }

    /// SNS does not say why it could not deliver a notification.
    fn of_topic(mut self) -> Self {
        self.reason = Some("SNS could not deliver it to the subscription".to_owned());
        let Some(fields) = fields(&self.message.body) else {
            return self;
        };
        let (topic, id) = (fields.text("TopicArn"), fields.text("MessageId"));
        let published = fields.text("Timestamp").and_then(|time| time_of(&time));
        self.source = topic.map(Source::Topic);
        self.first_sent = published;
        if let Some(id) = id {
            self.original_id = id;
        }
        self
    }

    fn of_destination(mut self) -> Self {
        let body = &self.message.body;
        self.source = function(body).map(Source::Function);
        let context = fields(body).and_then(|fields| {
            let context = fields.object("requestContext")?;
            let attempts = context.integer("approximateInvokeCount", u32::MAX);
            Some((context.text("condition"), attempts))
        });
        let (condition, attempts) = context.unwrap_or_default();
        self.attempt = attempts;
        self.reason = condition.map(|condition| match condition.as_str() {
            "RetriesExhausted" => "RetriesExhausted: it failed in all of Lambda's attempts".into(),
            "EventAgeExceeded" => {
                "EventAgeExceeded: it was too old for another of Lambda's attempts".into()
            }
            _ => condition,
        });
        if let Ok(record) = InvocationRecord::parse(body, &self.message.id, self.message.sent) {
            self.original_id = record.request_id;
            self.dead_since = Some(record.failed_at);
            self.error = Some(record.error);
        }
        self
    }
}

/// When a letter died that was put back from an archive. One that SQS has moved was not put back: its sender has written the attribute.
fn restored_death(message: &Message) -> Option<Timestamp> {
    let attribute = message.attributes.get(DIED)?;
    let died = attribute.to_text().parse().ok().map(Timestamp)?;
    let is_possible = message.dead_letter_source.is_none() && died <= message.sent;
    is_possible.then_some(died)
}

/// The event in a destination record.
pub(crate) fn payload(body: &str) -> Option<String> {
    let event = fields(body)?.get("requestPayload")?.get().to_owned();
    Some(event)
}

/// An error from its text, `CODE: MESSAGE` as [`Error`] displays it.
fn parse(text: &str) -> Error {
    let (code, message) = text.split_once(": ").unwrap_or((text, ""));
    let status = code
        .strip_prefix("HTTP ")
        .and_then(|status| status.parse().ok());
    Error::new(code, message).status(status)
}

/// A time in the format of RFC 3339.
fn time_of(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

#[cfg(test)]
#[path = "letter_tests.rs"]
pub(crate) mod tests;
