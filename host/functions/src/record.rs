//! The destination record that Lambda writes for a failed asynchronous invocation, converted to the input of a policy.
//!
//! The shape is that of Lambda's documentation ("Capturing records of Lambda asynchronous invocations"), as recorded from AWS in November 2025. Fields that only some runtimes write are optional, and unknown fields are ignored. Each field is read separately: a function's response may be any JSON and must not make the record unreadable.

use backstop_envelope::is_id;
use backstop_json::{Object, shown};
use jiff::Timestamp as Instant;
use serde_json::value::RawValue;

use backstop_core::failure::{Error, SOURCE_BYTES, Timestamp};
use backstop_core::text::cut;

/// The longest stack trace in the details, in bytes.
const TRACE: usize = 2 * 1024;

/// One failed asynchronous invocation.
#[derive(Debug, Clone)]
pub struct InvocationRecord {
    /// The request id: the same for every record of one invocation. The message's id if the record has none, or an invalid one.
    pub request_id: String,
    /// The function as it was invoked, with its version or alias.
    pub function: String,
    /// When the attempt failed and the record was written. Never later than when its message was sent.
    pub failed_at: Timestamp,
    /// Whether the function ran at all. An event may become too old before its first attempt.
    pub ran: bool,
    /// The event, its JSON text byte for byte.
    pub event: Box<RawValue>,
    /// Why it failed.
    pub error: Error,
}

/// Why a message is not a destination record that can be retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRecord {
    /// The message is not the JSON of a record.
    #[error("not a record of a failed asynchronous invocation: {0}")]
    Shape(String),
    /// A message of a function's own `DeadLetterConfig`. It has the event, but does not name the function.
    #[error(
        "a message of a function's DeadLetterConfig, which does not name the function: set the retry queue as its on-failure destination instead"
    )]
    DeadLetterConfig,
    /// The record has no event.
    #[error("the record has no requestPayload: there is nothing to invoke {0} with")]
    NoPayload(String),
    /// The invocation succeeded.
    #[error(
        "the record is about a successful invocation of {0}: set the retry queue as the on-failure destination, not as the on-success destination"
    )]
    Success(String),
}

/// The fields of a record that say why the attempt failed.
struct Shape<'a> {
    request_id: String,
    condition: String,
    invoke_count: Option<u32>,
    response_context: Object<'a>,
    /// The function's response; `None` if it is `null`.
    response: Option<&'a RawValue>,
    delivery_error: Option<Object<'a>>,
}

impl InvocationRecord {
    /// Reads a message's body. The message's id and its send time replace a missing request id and time, because both are the same at every receive. A time in the future is replaced too.
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
            invoke_count: context.integer("approximateInvokeCount", u32::MAX),
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
            // Only if Lambda itself has delayed the event: with a reserved concurrency of 0 it forwards every event at once.
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
    /// The error for the policy: the function's own error, else the delivery error, else the condition.
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
                Error::reported(show(fields, "errorType"), show(fields, "errorMessage"))
            }
            (_, Some(delivery), _) => {
                Error::new(show(delivery, "errorCode"), show(delivery, "errorMessage"))
            }
            // A function may fail with any value: its text is the message.
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
            let status = fields.integer("statusCode", u16::MAX.into())?;
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

/// A stack trace: the lines of an array, or any other value, cut to [`TRACE`].
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
