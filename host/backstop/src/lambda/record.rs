//! The destination record: what Lambda writes of a failed asynchronous invocation, read into what the policy is told.
//!
//! The shape is that of Lambda's documentation ("Capturing records of Lambda asynchronous invocations"), as recorded from AWS in November 2025. What only some runtimes write is optional, and what is unknown is left aside. Each field is read by itself: what a function answered may be any JSON, and must not cost the record its error.

use backstop_envelope::is_id;
use backstop_json::{Object, shown};
use jiff::Timestamp as Instant;
use serde_json::value::RawValue;

use crate::failure::{Error, SOURCE_BYTES, Timestamp};
use crate::text::cut;

/// The longest stack trace that is kept among the details, in bytes.
const TRACE: usize = 2 * 1024;

/// One failed asynchronous invocation.
#[derive(Debug, Clone)]
pub struct Record {
    /// The request id: the same for every record of one invocation. That of the message where the record has none, or one that can't be an id.
    pub request_id: String,
    /// The function as it was invoked, with its version or alias.
    pub function: String,
    /// When the record was written: when the attempt failed. Never later than its message was sent.
    pub failed_at: Timestamp,
    /// Whether the function ran at all: an event may grow too old while it waits for its first attempt.
    pub ran: bool,
    /// The event, its JSON text byte for byte.
    pub event: Box<RawValue>,
    /// Why it failed.
    pub error: Error,
}

/// Why a message is no destination record that can be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRecord {
    /// Not the JSON of a record.
    #[error("not a record of a failed asynchronous invocation: {0}")]
    Shape(String),
    /// A function's own dead letter: it has the event, and not what it takes to invoke the function again.
    #[error(
        "a message of a function's DeadLetterConfig, which does not name the function: set the retry queue as its on-failure destination instead"
    )]
    DeadLetterConfig,
    /// Nothing to invoke the function with.
    #[error("the record has no requestPayload: there is nothing to invoke {0} with")]
    NoPayload(String),
    /// Nothing failed.
    #[error(
        "the record is of a success of {0}: set the retry queue as the on-failure destination, not as the one for success"
    )]
    Success(String),
}

/// The fields of a record that say why the attempt failed.
struct Shape<'a> {
    request_id: String,
    condition: String,
    invoke_count: Option<u32>,
    response_context: Object<'a>,
    /// What the function answered; none where that is `null`.
    response: Option<&'a RawValue>,
    delivery_error: Option<Object<'a>>,
}

impl Record {
    /// Reads a message's body. What identifies the message and when it was sent stand in for a request id and a time that a record does not have: both are the same at every receive. A record that says it is of the future is of when its message was sent.
    pub fn parse(body: &str, message_id: &str, sent: Timestamp) -> Result<Self, NoRecord> {
        let no_shape = |what: &str| NoRecord::Shape(what.to_owned());
        let fields = Object::parse(body).map_err(|error| NoRecord::Shape(error.to_string()))?;
        let context = fields
            .object("requestContext")
            .ok_or_else(|| no_shape("it has no requestContext"))?;
        let function = context
            .text("functionArn")
            .filter(|function| (1..=SOURCE_BYTES).contains(&function.len()))
            .ok_or_else(|| {
                NoRecord::Shape(format!(
                    "it has no requestContext.functionArn of at most {SOURCE_BYTES} bytes"
                ))
            })?;
        let shape = Shape {
            request_id: context.text("requestId").unwrap_or_default(),
            condition: context.text("condition").unwrap_or_default(),
            invoke_count: context.whole("approximateInvokeCount", u32::MAX),
            response_context: fields.object("responseContext").unwrap_or_default(),
            response: fields
                .get("responsePayload")
                .filter(|response| response.get() != "null"),
            delivery_error: fields.object("deliveryError"),
        };
        if shape.condition == "Success" {
            return Err(NoRecord::Success(function));
        }
        let failed_at = fields
            .text("timestamp")
            .and_then(|time| time.parse().ok())
            .and_then(|time: Instant| u64::try_from(time.as_millisecond()).ok())
            .map_or(sent, Timestamp);
        let Some(event) = fields.get("requestPayload") else {
            return Err(NoRecord::NoPayload(function));
        };
        Ok(Self {
            // Only where Lambda itself has waited: with a reserved concurrency of 0 it hands every event over at once, for ever.
            ran: shape.invoke_count != Some(0) || shape.condition != "EventAgeExceeded",
            event: event.to_owned(),
            error: shape.error(),
            request_id: if is_id(&shape.request_id) {
                shape.request_id
            } else {
                message_id.to_owned()
            },
            function,
            failed_at: failed_at.min(sent),
        })
    }
}

impl Shape<'_> {
    /// What the policy is told: the function's own error where there is one, else the error of the delivery, else the condition.
    fn error(&self) -> Error {
        let fields = self.response.and_then(Object::of);
        let show =
            |fields: &Object<'_>, name: &str| fields.get(name).map_or_else(String::new, shown);
        let condition = match self.condition.as_str() {
            "" => "Unknown",
            condition => condition,
        };
        let function_error = || {
            let error = self.response_context.text("functionError");
            error.unwrap_or_else(|| condition.to_owned())
        };
        let mut error = match (&fields, &self.delivery_error, self.response) {
            (Some(fields), _, _) if fields.get("errorType").is_some() => {
                Error::new(show(fields, "errorType"), show(fields, "errorMessage"))
            }
            (_, Some(delivery), _) => {
                Error::new(show(delivery, "errorCode"), show(delivery, "errorMessage"))
            }
            // A function may fail with anything: what there is of it is the text.
            (Some(fields), None, _) if fields.get("errorMessage").is_some() => {
                Error::new(function_error(), show(fields, "errorMessage"))
            }
            (_, None, Some(other)) => Error::new(function_error(), shown(other)),
            (_, None, None) => Error::new(function_error(), self.without_response()),
        };
        if error.code.is_empty() {
            condition.clone_into(&mut error.code);
        }
        error.status = self.status();
        error.details = self.details(fields.as_ref());
        error.within_bounds()
    }

    fn without_response(&self) -> &'static str {
        match self.invoke_count {
            Some(0) => "the function did not run",
            _ => "the record has no response",
        }
    }

    /// The HTTP status, where it says more than that the function was run: Lambda writes 200 for a function that failed.
    fn status(&self) -> Option<u16> {
        let status = |fields: &Object<'_>| {
            let status = fields.whole("statusCode", u16::MAX.into())?;
            u16::try_from(status).ok()
        };
        let of_delivery = self.delivery_error.as_ref().and_then(status);
        of_delivery
            .or_else(|| status(&self.response_context))
            .filter(|status| *status >= 400)
    }

    fn details(&self, response: Option<&Object<'_>>) -> Vec<(String, String)> {
        let of_context = |name: &str| self.response_context.text(name).unwrap_or_default();
        let count = self.invoke_count;
        // `stackTrace` of Python, Java and Ruby, `trace` of Node.
        let trace = response
            .and_then(|response| response.get("stackTrace").or_else(|| response.get("trace")));
        let details = [
            ("requestId", self.request_id.clone()),
            ("condition", self.condition.clone()),
            (
                "approximateInvokeCount",
                count.map_or_else(String::new, |count| count.to_string()),
            ),
            ("executedVersion", of_context("executedVersion")),
            ("functionError", of_context("functionError")),
            ("stackTrace", trace.map_or_else(String::new, lines)),
        ];
        details
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// A stack trace: the lines of an array, or whatever else it is, as far as [`TRACE`] goes.
fn lines(trace: &RawValue) -> String {
    let mut text = match serde_json::from_str::<Vec<&RawValue>>(trace.get()) {
        Ok(lines) => lines.into_iter().map(shown).collect::<Vec<_>>().join("\n"),
        Err(_) => shown(trace),
    };
    cut(&mut text, TRACE);
    text
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
