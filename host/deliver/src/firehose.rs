//! Delivery to Amazon Data Firehose streams, with `PutRecordBatch`.
//!
//! An entry is the bytes of a record:
//!
//! ```no_run
//! use backstop_deliver::Delivery;
//! use backstop_deliver::firehose::Stream;
//! use futures_util::stream;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = aws_config::load_from_env().await;
//! let clicks = Stream::open(&config, "clicks").await?;
//! // Firehose puts records one after another: each has its own line ending.
//! let entries = (0..1_000_000).map(|number| format!("{{\"click\": {number}}}\n").into_bytes());
//! let report = Delivery::new(clicks).requests(4).send(stream::iter(entries)).await?;
//! assert!(report.undelivered.is_empty());
//! # Ok(()) }
//! ```

use aws_config::SdkConfig;
use aws_sdk_firehose::Client;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types::Record;
use backstop_aws::{Endpoint, ResponseLimit};
use backstop_core::failure::Error;

use crate::aws::{OpenError, client, open_error, request_error};
use crate::target::{EntryResult, Limits, RequestError, Target};

/// What one request accepts: 500 records and 4 MiB, each record at most 1,000 KiB.
const LIMITS: Limits = Limits {
    entries: 500,
    bytes: 4 << 20,
    entry_bytes: 1_000 << 10,
};

/// The code of a record that the response lists without an id and without an error.
const NO_ID: &str = "MissingRecordId";

/// A Firehose stream that records are delivered to. A stream has no order.
#[derive(Debug)]
pub struct Stream {
    client: Client,
    endpoint: Endpoint,
    name: String,
    arn: String,
}

impl Stream {
    /// Checks that the stream exists. Needs `firehose:DescribeDeliveryStream` and `firehose:PutRecordBatch`.
    pub async fn open(config: &SdkConfig, name: &str) -> Result<Self, OpenError> {
        let endpoint = Endpoint::of("FIREHOSE", config);
        let client = client!(aws_sdk_firehose, config, ResponseLimit::FIREHOSE);
        let response = client
            .describe_delivery_stream()
            .delivery_stream_name(name)
            .send()
            .await
            .map_err(|error| open_error(name, "DescribeDeliveryStream", endpoint.failed(&error)))?;
        let description = response.delivery_stream_description;
        Ok(Self {
            client,
            endpoint,
            name: name.to_owned(),
            arn: description.map_or_else(|| name.to_owned(), |it| it.delivery_stream_arn),
        })
    }

    /// The endpoint in place of AWS's own, such as that of an emulator, where another stream may have the same ARN.
    pub fn own_endpoint(&self) -> Option<String> {
        self.endpoint.own().map(str::to_owned)
    }
}

impl Target for Stream {
    type Entry = Vec<u8>;
    /// The record's id.
    type Receipt = String;

    fn source(&self) -> &str {
        &self.arn
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn size(&self, entry: &Vec<u8>) -> usize {
        entry.len()
    }

    async fn send(&self, entries: &[Vec<u8>]) -> Result<Vec<EntryResult<String>>, RequestError> {
        let record = |data: &Vec<u8>| Record::builder().data(Blob::new(data.clone())).build();
        let records: Result<Vec<_>, _> = entries.iter().map(record).collect();
        // The one field that a record needs is set.
        let records = records.map_err(|error| {
            RequestError::Rejected(Error::new("InvalidRecord", error.to_string()))
        })?;
        let response = self
            .client
            .put_record_batch()
            .delivery_stream_name(&self.name)
            .set_records(Some(records))
            .send()
            .await
            .map_err(|error| request_error(self.endpoint.failed(&error)))?;
        // In the order of the records.
        let results = response.request_responses.into_iter().map(|response| {
            match (response.error_code, response.record_id) {
                (Some(code), _) => {
                    let text = response.error_message.unwrap_or_default();
                    EntryResult::Failed(Error::new(code, text))
                }
                (None, Some(id)) => EntryResult::Delivered(id),
                (None, None) => EntryResult::Failed(Error::new(NO_ID, "")),
            }
        });
        Ok(results.collect())
    }
}
