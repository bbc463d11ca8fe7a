//! The destination record: what Lambda writes of a failed asynchronous invocation, read into what the policy is told.
//!
//! The shape is that of Lambda's documentation ("Capturing records of Lambda asynchronous invocations"), as recorded from AWS in November 2025. What only some runtimes write is optional, and what is unknown is left aside.

use jiff::Timestamp as Instant;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::{Error, Timestamp};

/// The longest stack trace that is kept among the details, in bytes.
const TRACE: usize = 2 * 1024;

/// One failed asynchronous invocation.
#[derive(Debug, Clone)]
pub struct Record {
    /// The request id: the same for every record of one invocation.
    pub request_id: String,
    /// The function as it was invoked, with its version or alias.
    pub function: String,
    /// When the record was written: when the attempt failed.
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    #[serde(default)]
    timestamp: Option<String>,
    request_context: RequestContext,
    #[serde(default, borrow, deserialize_with = "present")]
    request_payload: Option<&'a RawValue>,
    #[serde(default)]
    response_context: Option<ResponseContext>,
    #[serde(default, borrow)]
    response_payload: Option<&'a RawValue>,
    #[serde(default)]
    delivery_error: Option<DeliveryError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    #[serde(default)]
    request_id: String,
    function_arn: String,
    #[serde(default)]
    condition: String,
    #[serde(default)]
    approximate_invoke_count: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseContext {
    #[serde(default)]
    status_code: Option<u16>,
    #[serde(default)]
    executed_version: Option<String>,
    #[serde(default)]
    function_error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryError {
    #[serde(default)]
    status_code: Option<u16>,
    #[serde(default)]
    error_code: Option<Value>,
    #[serde(default)]
    error_message: Option<Value>,
}

/// `null` is a payload too.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Record {
    /// Reads a message's body. What identifies the message and when it was sent stand in for a request id and a time that a record does not have: both are the same at every receive.
    pub fn parse(body: &str, message_id: &str, sent: Timestamp) -> Result<Self, NoRecord> {
        let shape: Shape =
            serde_json::from_str(body).map_err(|error| NoRecord::Shape(error.to_string()))?;
        let error = shape.error();
        let RequestContext {
            request_id,
            function_arn: function,
            condition,
            approximate_invoke_count,
        } = shape.request_context;
        if function.is_empty() {
            let shape = "requestContext.functionArn is empty";
            return Err(NoRecord::Shape(shape.to_owned()));
        }
        if condition == "Success" {
            return Err(NoRecord::Success(function));
        }
        let failed_at = shape
            .timestamp
            .and_then(|time| time.parse().ok())
            .and_then(|time: Instant| u64::try_from(time.as_millisecond()).ok())
            .map_or(sent, Timestamp);
        let Some(event) = shape.request_payload else {
            return Err(NoRecord::NoPayload(function));
        };
        Ok(Self {
            // Only where Lambda itself has waited: with a reserved concurrency of 0 it hands every event over at once, for ever.
            ran: approximate_invoke_count != Some(0) || condition != "EventAgeExceeded",
            event: event.to_owned(),
            request_id: match request_id.as_str() {
                "" => message_id.to_owned(),
                _ => request_id,
            },
            function,
            failed_at,
            error,
        })
    }
}

impl Shape<'_> {
    /// What the policy is told: the function's own error where there is one, else the error of the delivery, else the condition.
    fn error(&self) -> Error {
        let response = self
            .response_payload
            .and_then(|payload| serde_json::from_str::<Value>(payload.get()).ok());
        let condition = match self.request_context.condition.as_str() {
            "" => "Unknown",
            condition => condition,
        };
        let function_error = self
            .response_context
            .as_ref()
            .and_then(|context| context.function_error.clone());
        let mut error = match (&response, &self.delivery_error) {
            (Some(Value::Object(fields)), _) if fields.contains_key("errorType") => Error::new(
                text(fields.get("errorType")),
                text(fields.get("errorMessage")),
            ),
            (_, Some(delivery)) => Error::new(
                match text(delivery.error_code.as_ref()) {
                    code if code.is_empty() => condition.to_owned(),
                    code => code,
                },
                text(delivery.error_message.as_ref()),
            ),
            // A function may fail with anything: what there is of it is the text.
            (Some(Value::Object(fields)), None) if fields.contains_key("errorMessage") => {
                let code = function_error.unwrap_or_else(|| condition.to_owned());
                Error::new(code, text(fields.get("errorMessage")))
            }
            (Some(other), None) => {
                let code = function_error.unwrap_or_else(|| condition.to_owned());
                Error::new(code, text(Some(other)))
            }
            (None, None) => {
                let code = function_error.unwrap_or_else(|| condition.to_owned());
                Error::new(code, self.without_response())
            }
        };
        if error.code.is_empty() {
            condition.clone_into(&mut error.code);
        }
        error.status = self.status();
        error.details = self.details(response.as_ref());
        error.within_bounds()
    }

    fn without_response(&self) -> String {
        match self.request_context.approximate_invoke_count {
            Some(0) => "the function did not run".to_owned(),
            _ => "the record has no response".to_owned(),
        }
    }

    /// The HTTP status, where it says more than that the function was run: Lambda writes 200 for a function that failed.
    fn status(&self) -> Option<u16> {
        let of_delivery = self
            .delivery_error
            .as_ref()
            .and_then(|error| error.status_code);
        let of_response = self
            .response_context
            .as_ref()
            .and_then(|context| context.status_code);
        of_delivery.or(of_response).filter(|status| *status >= 400)
    }

    fn details(&self, response: Option<&Value>) -> Vec<(String, String)> {
        let context = self.response_context.as_ref();
        let count = self.request_context.approximate_invoke_count;
        let mut details = vec![
            ("requestId", self.request_context.request_id.clone()),
            ("condition", self.request_context.condition.clone()),
            (
                "approximateInvokeCount",
                count.map_or_else(String::new, |count| count.to_string()),
            ),
            (
                "executedVersion",
                context
                    .and_then(|context| context.executed_version.clone())
                    .unwrap_or_default(),
            ),
            (
                "functionError",
                context
                    .and_then(|context| context.function_error.clone())
                    .unwrap_or_default(),
            ),
        ];
        // `stackTrace` of Python, Java and Ruby, `trace` of Node.
        let trace = response.and_then(|response| {
            let lines = response
                .get("stackTrace")
                .or_else(|| response.get("trace"))?;
            let Some(lines) = lines.as_array() else {
                return Some(text(Some(lines)));
            };
            let lines: Vec<_> = lines.iter().map(|line| text(Some(line))).collect();
            Some(lines.join("\n"))
        });
        let mut trace = trace.unwrap_or_default();
        crate::text::cut(&mut trace, TRACE);
        details.push(("stackTrace", trace));
        details
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// A string as it is, nothing for `null`, everything else as JSON.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
