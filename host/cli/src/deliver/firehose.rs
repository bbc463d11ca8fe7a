//! `backstop deliver firehose`: each line is a record.

use backstop_deliver::firehose::Stream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use serde::Deserialize;

use super::{Format, Shared, sdk, text, work};
use crate::error::Result;

const EXAMPLES: &str = r#"Each line is a record as PutRecordBatch and `aws firehose put-record-batch` have it, with its bytes as base64:
  {"Data": "eyJjbGljayI6N30K"}

With --lines, each line is a record itself, with its line ending:
  {"click": 7}

Examples:
  Deliver a file of JSON lines:
    backstop deliver firehose --stream clicks --lines clicks.jsonl

The first Ctrl-C (or SIGTERM) finishes the requests in flight and writes the rest, with all that was not yet read, to the file of undelivered records; a second one stops at once. If a delivery from a file is killed, the same command goes on where it was. The records that were in flight are then sent again: Firehose may write them twice.

It needs firehose:DescribeDeliveryStream and firehose:PutRecordBatch.

Exits with 0 if every record was delivered, with 9 if some are undelivered, and with 5 if the stream can't be used. host/docs/rust/deliver.md explains more."#;

/// Deliver records to a Firehose stream
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The stream
    #[arg(long, value_name = "NAME")]
    stream: String,

    /// Each line is a record's bytes, not JSON with base64
    #[arg(long)]
    lines: bool,

    #[command(flatten)]
    pub(super) shared: Shared,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let stream = Stream::open(&sdk(&args.shared).await, &args.stream).await?;
    let endpoint = stream.own_endpoint();
    let format = if args.lines {
        Format::new("the records themselves", whole)
    } else {
        Format::new("records as JSON", parse)
    };
    work::deliver(args.shared, stream, endpoint, format).await
}

/// A line that is a record: the bytes as they are, with the line ending, since Firehose writes records one after another.
fn whole(line: &[u8]) -> Result<Vec<u8>, String> {
    Ok([line, b"\n"].concat())
}

/// A line that is a record of PutRecordBatch.
fn parse(line: &[u8]) -> Result<Vec<u8>, String> {
    let line: Line = serde_json::from_str(text(line)?).map_err(|error| error.to_string())?;
    let bytes = STANDARD.decode(line.data);
    bytes.map_err(|error| format!("Data is not base64: {error}"))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Line {
    data: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_of_the_api_or_the_record_itself() {
        let record = br#"{"Data": "eyJjbGljayI6N30K"}"#;
        assert_eq!(parse(record).unwrap(), b"{\"click\":7}\n");
        for line in [&b"{\"click\":7}"[..], b"k\xe9\r", b"\xff\x00"] {
            assert_eq!(whole(line).unwrap(), [line, b"\n"].concat());
        }
        let error = parse(b"{\"Data\": \"\xe9\"}").unwrap_err();
        assert_eq!(error, "not UTF-8 at byte 11");
        for (line, expected) in [
            (r#"{"Data": "?"}"#, "Data is not base64"),
            (r#"{"data": ""}"#, "unknown field `data`"),
            ("7", "invalid type"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
