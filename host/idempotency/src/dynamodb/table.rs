//! Whether a table can hold the records.

use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::{KeyType, TableStatus, TimeToLiveStatus};

use super::DynamoStore;

/// What is wrong with a table.
///
/// ```no_run
/// use backstop_idempotency::{DynamoStore, TableError};
///
/// # async fn check(store: &DynamoStore) -> Result<(), TableError> {
/// match store.check().await {
///     Ok(Some(false)) => println!("expired records stay: enable the table's time to live"),
///     Ok(_) => {}
///     // Reading and writing may be allowed although the description is not.
///     Err(TableError::NotDescribed { why, .. }) => println!("not checked: {why}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// It does not exist.
    #[error(
        "the table `{table}` does not exist: create it or correct its name; the account and region must be those of the credentials"
    )]
    Missing {
        /// The table.
        table: String,
    },
    /// DynamoDB does not describe it.
    #[error("DynamoDB does not describe the table `{table}`: {why}")]
    NotDescribed {
        /// The table.
        table: String,
        /// What DynamoDB or the network answered.
        why: String,
    },
    /// It is not ready.
    #[error("the table `{table}` is not ready: its status is {status}")]
    NotActive {
        /// The table.
        table: String,
        /// Its status.
        status: String,
    },
    /// Its keys are others.
    #[error("the table `{table}` has the key {found}, and the settings say {expected}")]
    OtherKey {
        /// The table.
        table: String,
        /// Its keys.
        found: String,
        /// Those of the settings.
        expected: String,
    },
}

impl DynamoStore {
    /// Checks that the table exists, is ready, and has the keys of the settings. Returns whether it deletes expired records itself: `None` if nobody may know.
    pub async fn check(&self) -> Result<Option<bool>, TableError> {
        let table = self.table.clone();
        let described = self.client.describe_table().table_name(&table).send().await;
        let described = described.map_err(|error| match error.as_service_error() {
            Some(DescribeTableError::ResourceNotFoundException(_)) => TableError::Missing {
                table: table.clone(),
            },
            _ => TableError::NotDescribed {
                table: table.clone(),
                why: super::error::why(&error),
            },
        })?;
        let Some(description) = described.table else {
            let why = "the answer is empty".to_owned();
            return Err(TableError::NotDescribed { table, why });
        };
        if let Some(status) = description
            .table_status()
            .filter(|it| !matches!(it, TableStatus::Active | TableStatus::Updating))
        {
            let status = status.to_string();
            return Err(TableError::NotActive { table, status });
        }
        let key = |kind: KeyType| {
            let mut keys = description.key_schema().iter();
            keys.find(|it| *it.key_type() == kind)
                .map(|it| it.attribute_name().to_owned())
        };
        let found = (key(KeyType::Hash).unwrap_or_default(), key(KeyType::Range));
        let expected = (
            self.attributes.key.clone(),
            self.attributes.sort_key.clone(),
        );
        if found != expected {
            let shown = |(partition, sort): (String, Option<String>)| match sort {
                Some(sort) => format!("`{partition}` with the sort key `{sort}`"),
                None => format!("`{partition}`"),
            };
            return Err(TableError::OtherKey {
                table,
                found: shown(found),
                expected: shown(expected),
            });
        }
        Ok(self.deletes_expired().await)
    }

    async fn deletes_expired(&self) -> Option<bool> {
        let described = self.client.describe_time_to_live().table_name(&self.table);
        let described = described.send().await.ok()?;
        let time_to_live = described.time_to_live_description?;
        let is_on = matches!(
            time_to_live.time_to_live_status(),
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        let attribute = time_to_live.attribute_name();
        Some(is_on && attribute == Some(self.attributes.expiration.as_str()))
    }
}
