//! `backstop deliver sqs`: each line is a message.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use backstop_deliver::sqs::{Queue, message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use serde::Deserialize;
use serde_json::Value;

use super::{Format, Shared, sdk, text, work};
use crate::error::{Exit, Result};

const EXAMPLES: &str = r#"Each line is an entry as SendMessageBatch and `aws sqs send-message-batch` have it; Id is not needed:
  {"MessageBody": "order 7"}
  {"MessageBody": "order 7", "MessageGroupId": "customer-3", "MessageDeduplicationId": "7"}
  {"MessageBody": "order 7", "DelaySeconds": 60, "MessageAttributes": {"tenant": {"DataType": "String", "StringValue": "a"}}}

Examples:
  Deliver a file:
    backstop deliver sqs --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders orders.jsonl

  Each line of standard input is a message's body:
    seq 1000 | backstop deliver sqs --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders --bodies

  Deliver what was left, with another policy:
    backstop deliver sqs --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \
      undelivered.jsonl --undelivered rest.jsonl --policy full-jitter --set base=1s --set max-age=1h

The first Ctrl-C (or SIGTERM) finishes the requests in flight and writes the rest, with all that was not yet read, to the file of undelivered entries; a second one stops at once. If a delivery from a file is killed, the same command goes on where it was. The entries that were in flight are then sent again.

In a FIFO queue, each message is sent after the one before it in its group: many groups are faster than a few. A message without a MessageDeduplicationId gets one if the queue does not make it from the body.

It needs sqs:SendMessage and sqs:GetQueueAttributes.

Exits with 0 if every entry was delivered, with 9 if some are undelivered, and with 5 if the queue can't be used. host/docs/rust/deliver.md explains more."#;

/// Deliver messages to an SQS queue, standard or FIFO
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The queue
    #[arg(long, value_name = "URL")]
    queue_url: String,

    /// Each line is a message's body, not JSON
    #[arg(long)]
    bodies: bool,

    /// The message group of all messages, with --bodies
    #[arg(long, value_name = "ID", requires = "bodies")]
    group: Option<String>,

    #[command(flatten)]
    pub(super) shared: Shared,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let queue = Queue::open(&sdk(&args.shared).await, &args.queue_url).await?;
    let endpoint = queue.own_endpoint();
    if !args.bodies {
        let format = Format {
            line: with_deduplication_id,
            ..Format::new("messages", parse)
        };
        return work::deliver(args.shared, queue, endpoint, format).await;
    }
    if queue.is_fifo() {
        if args.group.is_none() {
            return Err(Exit::Usage.because("a FIFO queue needs --group with --bodies"));
        }
        if !queue.deduplicates_by_body() {
            return Err(Exit::Usage.because(
                "--bodies needs a queue with ContentBasedDeduplication: use JSON lines with a MessageDeduplicationId",
            ));
        }
    }
    let lines = match &args.group {
        Some(group) => format!("bodies for the group `{group}`"),
        None => "bodies".to_owned(),
    };
    let parse = move |line: &[u8]| {
        let entry = message(text(line)?).set_message_group_id(args.group.clone());
        entry.build().map_err(|error| error.to_string())
    };
    work::deliver(args.shared, queue, endpoint, Format::new(lines, parse)).await
}

/// A line that is an entry of SendMessageBatch.
fn parse(line: &[u8]) -> Result<SendMessageBatchRequestEntry, String> {
    let line: Line = serde_json::from_str(text(line)?).map_err(|error| error.to_string())?;
    line.entry()
}

/// The line with the deduplication id that the message got: a message that may have been delivered is then not delivered twice.
fn with_deduplication_id(line: &[u8], entry: &SendMessageBatchRequestEntry) -> Option<String> {
    const NAME: &str = "MessageDeduplicationId";
    let id = entry.message_deduplication_id()?;
    let mut line: Value = serde_json::from_slice(line).ok()?;
    let object = line.as_object_mut()?;
    if object.get(NAME).is_some_and(|known| !known.is_null()) {
        return None;
    }
    object.insert(NAME.to_owned(), id.into());
    Some(line.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Line {
    #[serde(rename = "Id")]
    _id: Option<String>,
    message_body: String,
    delay_seconds: Option<i32>,
    message_attributes: Option<HashMap<String, Attribute>>,
    message_system_attributes: Option<HashMap<String, Attribute>>,
    message_deduplication_id: Option<String>,
    message_group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Attribute {
    data_type: String,
    string_value: Option<String>,
    binary_value: Option<String>,
}

impl Line {
    fn entry(self) -> Result<SendMessageBatchRequestEntry, String> {
        let mut entry = message(self.message_body)
            .set_delay_seconds(self.delay_seconds)
            .set_message_deduplication_id(self.message_deduplication_id)
            .set_message_group_id(self.message_group_id);
        for (name, attribute) in self.message_attributes.into_iter().flatten() {
            let bytes = attribute.bytes(&name)?;
            let value = MessageAttributeValue::builder()
                .data_type(attribute.data_type)
                .set_string_value(attribute.string_value)
                .set_binary_value(bytes.map(Blob::new));
            entry = entry.message_attributes(name, value.build().map_err(|it| it.to_string())?);
        }
        for (name, attribute) in self.message_system_attributes.into_iter().flatten() {
            let bytes = attribute.bytes(&name)?;
            let value = MessageSystemAttributeValue::builder()
                .data_type(attribute.data_type)
                .set_string_value(attribute.string_value)
                .set_binary_value(bytes.map(Blob::new));
            let name = MessageSystemAttributeNameForSends::from(name.as_str());
            let value = value.build().map_err(|it| it.to_string())?;
            entry = entry.message_system_attributes(name, value);
        }
        entry.build().map_err(|error| error.to_string())
    }
}

impl Attribute {
    fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let decode = |text: &String| {
            let bytes = STANDARD.decode(text);
            bytes.map_err(|error| format!("BinaryValue of `{name}` is not base64: {error}"))
        };
        self.binary_value.as_ref().map(decode).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_entry_of_the_api() {
        let entry = parse(
                br#"{"Id": "1", "MessageBody": "b", "DelaySeconds": 5, "MessageGroupId": "g", "MessageDeduplicationId": "d",
                "MessageAttributes": {"t": {"DataType": "String", "StringValue": "v"}, "r": {"DataType": "Binary", "BinaryValue": "AQI="}},
                "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}}"#,
            )
            .unwrap();
        assert_eq!(
            (entry.message_body(), entry.delay_seconds()),
            ("b", Some(5))
        );
        assert_eq!(entry.message_group_id(), Some("g"));
        let attributes = entry.message_attributes().unwrap();
        assert_eq!(attributes["t"].string_value(), Some("v"));
        assert_eq!(attributes["r"].binary_value().unwrap().as_ref(), [1, 2]);
        assert_eq!(entry.message_system_attributes().unwrap().len(), 1);
    }

    #[test]
    fn an_invalid_line_is_rejected_with_the_reason() {
        for (line, expected) in [
            ("order 7", "expected value"),
            ("{}", "missing field `MessageBody`"),
            (
                r#"{"MessageBody": "b", "Body": "b"}"#,
                "unknown field `Body`",
            ),
            (
                r#"{"MessageBody": "b", "MessageAttributes": {"r": {"DataType": "Binary", "BinaryValue": "?"}}}"#,
                "BinaryValue of `r` is not base64",
            ),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_undelivered_line_keeps_the_deduplication_id_that_it_got() {
        let with = r#"{"MessageBody":"b","MessageDeduplicationId":"mine"}"#;
        let entry = parse(with.as_bytes()).unwrap();
        assert_eq!(with_deduplication_id(with.as_bytes(), &entry), None);
        let without = r#"{"MessageBody":"b"}"#;
        assert_eq!(
            with_deduplication_id(without.as_bytes(), &parse(without.as_bytes()).unwrap()),
            None
        );
        assert_eq!(
            with_deduplication_id(without.as_bytes(), &entry).unwrap(),
            with
        );
    }
}
