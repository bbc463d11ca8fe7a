//! `idempotency` of a queue: whose records say which messages are done.

use std::time::Duration;

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
}

/// Whose records a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordFormat {
    /// Powertools for AWS Lambda (Python).
    #[default]
    Python,
    /// Powertools for AWS Lambda (TypeScript).
    TypeScript,
}

/// What happens to work that may have been done: its host crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// It is done again.
    #[default]
    Retry,
    /// It fails with `IdempotencyOutcomeUnknown`, which is permanent.
    DeadLetter,
}

/// What happens to a message without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissingKey {
    /// It fails with `IdempotencyKeyMissing`, which is permanent.
    #[default]
    Error,
    /// It is handled without a record.
    NotIdempotent,
}

/// For which SQS keeps a message at most.
const TWO_WEEKS: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const LEASE: Duration = Duration::from_secs(20);

impl raw::Idempotency {
    pub(super) fn convert(
        self,
        at: &dyn Fn(&str) -> String,
    ) -> Result<IdempotencyConfig, ConfigError> {
        let place = |key: &str| at(&format!("idempotency.{key}"));
        if self.table.is_empty() {
            return Err(value(place("table"), "expected the name of a table"));
        }
        let lease = self.lease.map_or(LEASE, |span| span.0);
        if lease < Duration::from_secs(1) {
            return Err(value(
                place("lease"),
                "expected at least 1s: the clocks of two machines differ",
            ));
        }
        let expires_after = self.expires_after.map_or(TWO_WEEKS, |span| span.0);
        if expires_after < Duration::from_secs(1) {
            return Err(value(place("expires-after"), "expected at least 1s"));
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
        supported().map_err(|expected| value(at("idempotency"), expected))?;
        Ok(IdempotencyConfig {
            table: self.table,
            key: self.key,
            validate: self.validate,
            prefix: self.prefix,
            format: self.format.unwrap_or_default(),
            lease,
            expires_after,
            on_unknown: self.on_unknown.unwrap_or_default(),
            on_missing_key: self.on_missing_key.unwrap_or_default(),
        })
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
