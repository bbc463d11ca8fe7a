//! The names of a record's attributes.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// The names of a record's attributes. The default is that of Powertools; each can be renamed, as there.
///
/// ```
/// use backstop_idempotency::Attributes;
///
/// // A table with a sort key: all records of a function have one partition key.
/// let attributes = Attributes {
///     sort_key: Some("sk".to_owned()),
///     partition: "idempotency#orders".to_owned(),
///     ..Attributes::default()
/// };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// The partition key: `id`.
    pub key: String,
    /// The sort key, if the table has one. It then holds the record's key.
    pub sort_key: Option<String>,
    /// The value of the partition key in a table with a sort key: `idempotency#` and the function's name.
    pub partition: String,
    /// When the record no longer counts, in seconds: `expiration`. The table's time to live.
    pub expiration: String,
    /// When the lease ends, in milliseconds: `in_progress_expiration`.
    pub in_progress_expiration: String,
    /// `INPROGRESS` or `COMPLETED`: `status`.
    pub status: String,
    /// The result: `data`.
    pub data: String,
    /// The hash of the payload: `validation`.
    pub validation: String,
    /// The owner's token, which Powertools does not know: `backstop_owner`.
    pub owner: String,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            key: "id".to_owned(),
            sort_key: None,
            partition: "idempotency#".to_owned(),
            expiration: "expiration".to_owned(),
            in_progress_expiration: "in_progress_expiration".to_owned(),
            status: "status".to_owned(),
            data: "data".to_owned(),
            validation: "validation".to_owned(),
            owner: "backstop_owner".to_owned(),
        }
    }
}

impl Attributes {
    /// The primary key of a record.
    pub(super) fn key(&self, key: &str) -> HashMap<String, AttributeValue> {
        let string = |text: &str| AttributeValue::S(text.to_owned());
        match &self.sort_key {
            Some(sort_key) => HashMap::from([
                (self.key.clone(), string(&self.partition)),
                (sort_key.clone(), string(key)),
            ]),
            None => HashMap::from([(self.key.clone(), string(key))]),
        }
    }
}
