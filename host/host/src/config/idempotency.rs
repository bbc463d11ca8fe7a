//! `idempotency` of a queue: whose records say which messages are done.

use std::time::Duration;

use backstop_core::idempotency::{EXPIRES_AFTER, LEASE, OnMissingKey, OnUnknown, RecordFormat};
use backstop_files::only_tables;
use serde::Deserialize;

use super::{ConfigError, raw, value};

/// How the work of a queue's messages is done once for each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyConfig {
    /// The table of DynamoDB.
    pub table: String,
    /// Where the key is in the body. Without one, it is the message's original id.
    pub key: Option<String>,
    /// What of the body has to be the same in a repeat.
    pub validate: Option<String>,
    /// What keys begin with. The default is the queue's name in SQS.
    pub prefix: Option<String>,
    /// Whose records the table holds.
    pub format: RecordFormat,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long completed work is remembered.
    pub expires_after: Duration,
    /// What happens to work that may have been done.
    pub on_unknown: OnUnknown,
    /// What happens to a message without a key.
    pub on_missing_key: OnMissingKey,
    /// The names of a record's attributes.
    pub attributes: RecordAttributes,
}

/// The names of a record's attributes, as the table has them. The default is that of Powertools.
///
/// ```
/// # use backstop_host::config::RecordAttributes;
/// // A table with a sort key: the records of a queue have one partition key.
/// let attributes = RecordAttributes {
///     sort_key: Some("sk".to_owned()),
///     partition: Some("idempotency#orders".to_owned()),
///     ..RecordAttributes::default()
/// };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct RecordAttributes {
    /// The partition key: `id`.
    pub key: Option<String>,
    /// The sort key, if the table has one. It then holds the record's key.
    pub sort_key: Option<String>,
    /// The value of the partition key in a table with a sort key: `idempotency#` and the prefix of keys.
    pub partition: Option<String>,
    /// When the record no longer counts, the table's time to live: `expiration`.
    pub expiration: Option<String>,
    /// When the lease ends: `in_progress_expiration`.
    pub in_progress_expiration: Option<String>,
    /// Whether the work is done: `status`.
    pub status: Option<String>,
    /// The result: `data`.
    pub data: Option<String>,
    /// The hash of the payload: `validation`.
    pub validation: Option<String>,
    /// The owner's token: `backstop_owner`.
    pub owner: Option<String>,
}

only_tables! {
    RecordAttributes: "a table of names, such as { sort-key = \"sk\", partition = \"idempotency#orders\" }";
}

impl raw::Idempotency {
    pub(super) fn convert(
        self,
        at: &dyn Fn(&str) -> String,
    ) -> Result<IdempotencyConfig, ConfigError> {
        let place = |key: &str| at(&format!("idempotency.{key}"));
        if self.table.is_empty() {
            return Err(value(place("table"), "expected the name of a table"));
        }
        for (key, path) in [("key", &self.key), ("validate", &self.validate)] {
            if let Some(path) = path {
                check(path).map_err(|expected| value(place(key), expected))?;
            }
        }
        if let Some(prefix) = &self.prefix
            && prefix.is_empty()
        {
            return Err(value(
                place("prefix"),
                "expected text: keys of different work need different prefixes",
            ));
        }
        let attributes = self.attributes.unwrap_or_default();
        attributes.check(&place)?;
        supported().map_err(|expected| value(at("idempotency"), expected))?;
        Ok(IdempotencyConfig {
            table: self.table,
            key: self.key,
            validate: self.validate,
            prefix: self.prefix,
            format: self.format.unwrap_or_default(),
            lease: self.lease.map_or(LEASE, |span| span.0),
            expires_after: self.expires_after.map_or(EXPIRES_AFTER, |span| span.0),
            on_unknown: self.on_unknown.unwrap_or_default(),
            on_missing_key: self.on_missing_key.unwrap_or_default(),
            attributes,
        })
    }
}

impl RecordAttributes {
    /// Each name is one, and no two are the same.
    fn check(&self, place: &dyn Fn(&str) -> String) -> Result<(), ConfigError> {
        let at = |key: &str| place(&format!("attributes.{key}"));
        if self.partition.is_some() && self.sort_key.is_none() {
            return Err(value(
                at("partition"),
                "expected together with `sort-key` only: without one, the partition key is the record's own",
            ));
        }
        if self.partition.as_deref() == Some("") {
            return Err(value(at("partition"), "expected text"));
        }
        let names = [
            ("key", &self.key, Some("id")),
            ("sort-key", &self.sort_key, None),
            ("expiration", &self.expiration, Some("expiration")),
            (
                "in-progress-expiration",
                &self.in_progress_expiration,
                Some("in_progress_expiration"),
            ),
            ("status", &self.status, Some("status")),
            ("data", &self.data, Some("data")),
            ("validation", &self.validation, Some("validation")),
            ("owner", &self.owner, Some("backstop_owner")),
        ];
        let names = names.map(|(key, name, default)| (key, name.as_deref().or(default)));
        for (index, (key, name)) in names.iter().enumerate() {
            let Some(name) = name else { continue };
            if name.is_empty() {
                return Err(value(at(key), "expected the name of an attribute"));
            }
            let earlier = names.iter().take(index);
            if let Some((other, _)) = earlier.into_iter().find(|(_, it)| *it == Some(*name)) {
                return Err(value(
                    at(key),
                    format!("expected another name than `{name}`, which is that of `{other}`"),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(feature = "idempotency")]
fn check(path: &str) -> Result<(), String> {
    let path = path.parse::<backstop_idempotency::Path>();
    path.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(not(feature = "idempotency"))]
fn check(_: &str) -> Result<(), String> {
    Ok(())
}

fn supported() -> Result<(), &'static str> {
    if cfg!(feature = "idempotency") {
        Ok(())
    } else {
        Err("this program was built without the feature `idempotency` of backstop")
    }
}
