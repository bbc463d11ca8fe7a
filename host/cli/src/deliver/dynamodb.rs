//! `backstop deliver dynamodb`: each line is a put or a delete.

use aws_sdk_dynamodb::types::WriteRequest;
use backstop_deliver::Duplicates as Rule;
use backstop_deliver::dynamodb::{Table, delete, put};
use clap::{Parser, ValueEnum};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Format, Shared, attribute_value, sdk, text, work};
use crate::error::Result;

const EXAMPLES: &str = r#"Each line is a request as BatchWriteItem and `aws dynamodb batch-write-item` have it, or an item as DynamoDB exports it to S3:
  {"PutRequest": {"Item": {"id": {"S": "7"}, "total": {"N": "12.50"}}}}
  {"DeleteRequest": {"Key": {"id": {"S": "7"}}}}
  {"Item": {"id": {"S": "7"}, "total": {"N": "12.50"}}}

Examples:
  Deliver a file:
    backstop deliver dynamodb --table orders orders.jsonl

  Load an export of another table:
    zcat AWSDynamoDB/*/data/*.json.gz | backstop deliver dynamodb --table orders

  Changes in which only the last one of a key counts:
    backstop deliver dynamodb --table orders --duplicates last-wins changes.jsonl

DynamoDB refuses a request that has the same key twice. With --duplicates separate, such entries are sent one after the other, in their order. With last-wins, a later entry replaces an earlier one that is not yet in flight. With refuse, the later one is undelivered. The rule covers the entries that are held at the same time, at most 10,000.

The first Ctrl-C (or SIGTERM) finishes the requests in flight and writes the rest, with all that was not yet read, to the file of undelivered entries; a second one stops at once. If a delivery from a file is killed, the same command goes on where it was. The entries that were in flight are then sent again.

It needs dynamodb:DescribeTable and dynamodb:BatchWriteItem.

Exits with 0 if every entry was delivered, with 9 if some are undelivered, and with 5 if the table can't be used. host/docs/rust/deliver.md explains more."#;

/// Deliver puts and deletes to a DynamoDB table
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The table
    #[arg(long, value_name = "NAME|ARN")]
    table: String,

    /// What happens to an entry with the same key as an earlier one that is not yet delivered
    #[arg(long, value_name = "RULE", value_enum, default_value = "separate")]
    duplicates: Duplicates,

    #[command(flatten)]
    pub(super) shared: Shared,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Duplicates {
    Separate,
    LastWins,
    Refuse,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let table = Table::open(&sdk(&args.shared).await, &args.table).await?;
    let table = table.duplicates(match args.duplicates {
        Duplicates::Separate => Rule::Separate,
        Duplicates::LastWins => Rule::LastWins,
        Duplicates::Refuse => Rule::Refuse,
    });
    let endpoint = table.own_endpoint();
    work::deliver(args.shared, table, endpoint, Format::new("requests", parse)).await
}

/// A line that is a request of BatchWriteItem.
fn parse(line: &[u8]) -> Result<WriteRequest, String> {
    let line = serde_json::from_str(text(line)?).map_err(|error| {
        let text = error.to_string();
        if text.contains("did not match") || text.contains("unknown variant") {
            "expected {\"PutRequest\": …}, {\"DeleteRequest\": …} or {\"Item\": …}".to_owned()
        } else {
            text
        }
    })?;
    let item = match &line {
        Line::PutRequest { item } | Line::Item(item) => item,
        Line::DeleteRequest { key } => return Ok(delete(attribute_value::item(key)?)),
    };
    Ok(put(attribute_value::item(item)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Line {
    PutRequest {
        #[serde(rename = "Item")]
        item: Map<String, Value>,
    },
    DeleteRequest {
        #[serde(rename = "Key")]
        key: Map<String, Value>,
    },
    Item(Map<String, Value>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_of_the_api_or_an_exported_item() {
        let item = r#"{"id": {"S": "7"}, "total": {"N": "12.50"}}"#;
        let put = parse(format!(r#"{{"PutRequest": {{"Item": {item}}}}}"#).as_bytes()).unwrap();
        let exported = parse(format!(r#"{{"Item": {item}}}"#).as_bytes());
        assert_eq!(exported.unwrap(), put);
        assert_eq!(put.put_request().unwrap().item().len(), 2);
        let delete = parse(br#"{"DeleteRequest": {"Key": {"id": {"S": "7"}}}}"#);
        assert!(delete.unwrap().delete_request().is_some());
    }

    #[test]
    fn an_invalid_line_is_rejected_with_the_reason() {
        for (line, expected) in [
            ("{\"id\": 7}", "expected {\"PutRequest\""),
            ("7", "expected value"),
            (
                r#"{"Item": {"id": "7"}}"#,
                "`id`: expected an object with one type",
            ),
            (r#"{"Item": {"id": {"X": "7"}}}"#, "`id`: unknown type `X`"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
