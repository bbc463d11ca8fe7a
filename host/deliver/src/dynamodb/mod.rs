//! Delivery to DynamoDB tables: puts and deletes.
//!
//! An entry is the SDK's own type. [`put`] and [`delete`] make one:
//!
//! ```no_run
//! use aws_sdk_dynamodb::types::AttributeValue::{N, S};
//! use backstop_deliver::{Delivery, Duplicates};
//! use backstop_deliver::dynamodb::{Table, delete, put};
//! use futures_util::stream;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = aws_config::load_from_env().await;
//! let table = Table::open(&config, "orders").await?.duplicates(Duplicates::LastWins);
//! let key = |number: u32| ("id".to_owned(), N(number.to_string()));
//! let entries = [
//!     put([key(1), ("state".to_owned(), S("paid".to_owned()))]),
//!     delete([key(2)]),
//! ];
//! let report = Delivery::new(table).send(stream::iter(entries)).await?;
//! assert!(report.undelivered.is_empty());
//! # Ok(()) }
//! ```

mod key;
mod size;

use std::collections::HashSet;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, KeyType, PutRequest, WriteRequest};
use backstop_aws::{Endpoint, ResponseLimit};
use backstop_core::failure::Error;

use crate::aws::{OpenError, client, open_error, request_error};
use crate::target::{Duplicates, EntryResult, Group, Limits, RequestError, Target};

pub use size::size;

/// What one request accepts: 25 entries and 16 MB, each item at most 400 KB.
const LIMITS: Limits = Limits {
    entries: 25,
    bytes: 16 << 20,
    entry_bytes: 400 << 10,
};

/// The code of an entry that the response lists as unprocessed: the table had no capacity left, or failed.
const UNPROCESSED: &str = "UnprocessedItem";

/// Puts an item, in place of one with the same key.
///
/// ```
/// use aws_sdk_dynamodb::types::AttributeValue::S;
/// let entry = backstop_deliver::dynamodb::put([("id".to_owned(), S("7".to_owned()))]);
/// assert!(entry.put_request().is_some());
/// ```
pub fn put(item: impl IntoIterator<Item = (String, AttributeValue)>) -> WriteRequest {
    let item = Some(item.into_iter().collect());
    let put = PutRequest::builder().set_item(item).build();
    WriteRequest::builder().set_put_request(put.ok()).build()
}

/// Deletes the item with this key. An item that does not exist is delivered as well.
///
/// ```
/// use aws_sdk_dynamodb::types::AttributeValue::S;
/// let entry = backstop_deliver::dynamodb::delete([("id".to_owned(), S("7".to_owned()))]);
/// assert!(entry.delete_request().is_some());
/// ```
pub fn delete(key: impl IntoIterator<Item = (String, AttributeValue)>) -> WriteRequest {
    let key = Some(key.into_iter().collect());
    let delete = DeleteRequest::builder().set_key(key).build();
    WriteRequest::builder()
        .set_delete_request(delete.ok())
        .build()
}

/// A table in DynamoDB that puts and deletes are delivered to.
///
/// DynamoDB refuses a request with the same key twice. Two entries have the same key if partition key and sort key are equal by type and value: the numbers `1` and `1.0` are one key, the text `1` is another.
///
/// ```no_run
/// use backstop_deliver::dynamodb::Table;
/// use backstop_deliver::{Delivery, Duplicates};
///
/// # async fn open(config: &aws_config::SdkConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = Table::open(config, "orders").await?.duplicates(Duplicates::LastWins);
/// let delivery = Delivery::new(orders);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Table {
    client: Client,
    endpoint: Endpoint,
    name: String,
    arn: String,
    /// The names of the partition key and of the sort key, if there is one.
    key: Vec<String>,
    duplicates: Duplicates,
}

impl Table {
    /// Reads the names of the table's key. Needs `dynamodb:DescribeTable` and `dynamodb:BatchWriteItem`.
    pub async fn open(config: &SdkConfig, name: &str) -> Result<Self, OpenError> {
        let endpoint = Endpoint::of("DYNAMODB", config);
        let client = client!(aws_sdk_dynamodb, config, ResponseLimit::DYNAMODB);
        let response = client
            .describe_table()
            .table_name(name)
            .send()
            .await
            .map_err(|error| open_error(name, "DescribeTable", endpoint.failed(&error)))?;
        let table = response
            .table
            .unwrap_or_else(|| aws_sdk_dynamodb::types::TableDescription::builder().build());
        let mut schema = table.key_schema.unwrap_or_default();
        schema.sort_by_key(|element| element.key_type != KeyType::Hash);
        if schema.is_empty() {
            return Err(OpenError {
                target: name.to_owned(),
                operation: "DescribeTable",
                error: Error::new("InvalidAnswer", "the response has no key schema"),
                retryable: false,
            });
        }
        Ok(Self {
            client,
            endpoint,
            name: name.to_owned(),
            arn: table.table_arn.unwrap_or_else(|| name.to_owned()),
            key: schema.into_iter().map(|it| it.attribute_name).collect(),
            duplicates: Duplicates::Separate,
        })
    }

    /// The endpoint in place of AWS's own, such as that of an emulator, where another table may have the same ARN.
    pub fn own_endpoint(&self) -> Option<String> {
        self.endpoint.own().map(str::to_owned)
    }

    /// What happens to an entry with the same key as an earlier one that is not yet settled; by default, both are sent, one after the other.
    #[must_use]
    pub const fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// The names of the partition key and of the sort key, if there is one.
    pub fn key(&self) -> &[String] {
        &self.key
    }
}

impl Target for Table {
    type Entry = WriteRequest;
    type Receipt = ();

    fn source(&self) -> &str {
        &self.arn
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn size(&self, entry: &WriteRequest) -> usize {
        size(entry)
    }

    /// The key. `None` without one, which DynamoDB refuses.
    fn group(&self, entry: &WriteRequest) -> Option<Group> {
        key::of(entry, &self.key)
    }

    fn duplicates(&self) -> Duplicates {
        self.duplicates
    }

    /// A put and a delete have the same effect the second time.
    fn is_repeatable(&self, _: &WriteRequest) -> bool {
        true
    }

    async fn send(&self, entries: &[WriteRequest]) -> Result<Vec<EntryResult<()>>, RequestError> {
        let response = self
            .client
            .batch_write_item()
            .request_items(&self.name, entries.to_vec())
            .send()
            .await
            .map_err(|error| request_error(self.endpoint.failed(&error)))?;
        let unprocessed = response.unprocessed_items.unwrap_or_default();
        let unprocessed: HashSet<_> = unprocessed
            .values()
            .flatten()
            .map(|entry| key::of(entry, &self.key))
            .collect();
        let keys: Vec<_> = entries.iter().map(|it| key::of(it, &self.key)).collect();
        // An unprocessed entry that can't be told apart could be any of them.
        if !unprocessed.iter().all(|key| keys.contains(key)) {
            return Ok(vec![EntryResult::Unanswered; entries.len()]);
        }
        let result = |key| {
            if unprocessed.contains(key) {
                let text = "the table had no capacity left, or failed";
                EntryResult::Failed(Error::new(UNPROCESSED, text))
            } else {
                EntryResult::Delivered(())
            }
        };
        Ok(keys.iter().map(result).collect())
    }
}
