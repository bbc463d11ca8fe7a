//! The names of a record's attributes.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// The names of a record's attributes. The default is that of Powertools; each can be renamed, as there.
///
/// ```
/// use backstop_idempotency::Attributes;
///
/// // A table with a sort key: all records of a function have one partition key.
/// let attributes = Attributes::default().sort_key("sk").partition("idempotency#orders");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// For a table with a sort key of this name.
    #[must_use]
    pub fn sort_key(mut self, sort_key: impl Into<String>) -> Self {
        self.sort_key = Some(sort_key.into());
        self
    }

    /// The same names with another partition key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// With another value of the partition key in a table with a sort key.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = partition.into();
        self
    }

    /// With another name for the time after which the record no longer counts.
    #[must_use]
    pub fn expiration(mut self, expiration: impl Into<String>) -> Self {
        self.expiration = expiration.into();
        self
    }

    /// With another name for the end of the lease.
    #[must_use]
    pub fn in_progress_expiration(mut self, in_progress_expiration: impl Into<String>) -> Self {
        self.in_progress_expiration = in_progress_expiration.into();
        self
    }

    /// With another name for the status.
    #[must_use]
    pub fn status(mut self, status: impl Into<String>) -> Self {
        self.status = status.into();
        self
    }

    /// With another name for the result.
    #[must_use]
    pub fn data(mut self, data: impl Into<String>) -> Self {
        self.data = data.into();
        self
    }

    /// With another name for the hash of the payload.
    #[must_use]
    pub fn validation(mut self, validation: impl Into<String>) -> Self {
        self.validation = validation.into();
        self
    }

    /// With another name for the owner's token.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// The primary key of a record.
    pub(super) fn primary_key(&self, key: &str) -> HashMap<String, AttributeValue> {
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
