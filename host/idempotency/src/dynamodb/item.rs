//! Records as items of DynamoDB.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use backstop_core::failure::{Error, Timestamp};
use backstop_core::idempotency::RecordFormat;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::attributes::Attributes;
use super::condition::{COMPLETED, IN_PROGRESS, NOT_STORED, number, string};
use crate::json::Json;
use crate::store::{Claim, Record, Status, StoreError};

type Item = HashMap<String, AttributeValue>;

/// The most bytes that an item of DynamoDB has.
const ITEM_BYTES: usize = 400 * 1024;

/// JSON text has at most this many bytes for each byte of a native value: `\u0000` is one.
const NATIVE_BYTES: usize = 6;

impl Attributes {
    /// The record of a claim.
    pub(super) fn new_item(&self, claim: &Claim<'_>) -> Item {
        let mut item = self.primary_key(claim.key);
        item.extend([
            (self.expiration.clone(), number(claim.expires)),
            (
                self.in_progress_expiration.clone(),
                number(claim.lease_until.0),
            ),
            (self.status.clone(), string(IN_PROGRESS)),
            (self.owner.clone(), string(claim.owner)),
        ]);
        if let Some(validation) = claim.validation {
            item.insert(self.validation.clone(), string(validation));
        }
        item
    }

    /// The record that an item is.
    pub(super) fn record(&self, format: RecordFormat, item: &Item) -> Result<Record, StoreError> {
        let status = match self.text(item, &self.status) {
            Some(IN_PROGRESS) => Status::InProgress,
            Some(COMPLETED) => Status::Completed,
            Some(NOT_STORED) => Status::ResultNotStored,
            other => {
                let message = format!(
                    "the item has the status {other:?}: it is no record of idempotent work"
                );
                return Err(invalid(message));
            }
        };
        let not_stored = self.text(item, &self.data);
        let not_stored = not_stored.filter(|_| status == Status::ResultNotStored);
        let result = item.get(&self.data);
        let result = result.filter(|_| status == Status::Completed);
        let result = result.map(|it| match (format, it) {
            (RecordFormat::Python, AttributeValue::S(text)) => Ok(text.clone()),
            (RecordFormat::Python | RecordFormat::TypeScript, it) => {
                json(it).map(|it| it.to_string())
            }
        });
        Ok(Record {
            status,
            expires: self
                .integer(item, &self.expiration)
                .unwrap_or(u64::MAX / 1_000),
            lease_until: self
                .integer(item, &self.in_progress_expiration)
                .map(Timestamp),
            owner: self.text(item, &self.owner).map(str::to_owned),
            result: result.transpose()?,
            not_stored: not_stored.map(str::to_owned),
            validation: self.text(item, &self.validation).map(str::to_owned),
        })
    }

    /// Whether an item has this owner and status.
    pub(super) fn is(&self, item: &Item, owner: &str, status: &str) -> bool {
        self.text(item, &self.owner) == Some(owner) && self.text(item, &self.status) == Some(status)
    }

    /// Whether an item is of work in progress of another owner. Powertools writes no owner.
    pub(super) fn is_of_another(&self, item: &Item, owner: &str) -> bool {
        self.text(item, &self.status) == Some(IN_PROGRESS)
            && self.text(item, &self.owner) != Some(owner)
    }

    fn text<'a>(&self, item: &'a Item, name: &str) -> Option<&'a str> {
        item.get(name)?.as_s().ok().map(String::as_str)
    }

    /// A time. TypeScript writes fractions into some.
    fn integer(&self, item: &Item, name: &str) -> Option<u64> {
        let written = item.get(name)?.as_n().ok()?;
        written.split('.').next()?.parse().ok()
    }
}

/// The result as the format stores it.
///
/// What is certainly too large is not sent: DynamoDB refuses a large request in other ways than a large item.
pub(super) fn result(format: RecordFormat, text: &str) -> Result<AttributeValue, StoreError> {
    let most = match format {
        RecordFormat::Python => ITEM_BYTES,
        RecordFormat::TypeScript => ITEM_BYTES * NATIVE_BYTES,
    };
    if text.len() > most {
        let bytes = text.len();
        return Err(StoreError {
            refused_result: true,
            ..invalid(format!(
                "it has {bytes} bytes, and an item of DynamoDB has at most {ITEM_BYTES}"
            ))
        });
    }
    match format {
        RecordFormat::Python => Ok(AttributeValue::S(text.to_owned())),
        RecordFormat::TypeScript => {
            let json = Json::parse(text).map_err(|error| StoreError {
                refused_result: true,
                ..invalid(error.to_string())
            })?;
            Ok(native(&json))
        }
    }
}

fn native(json: &Json) -> AttributeValue {
    match json {
        Json::Null => AttributeValue::Null(true),
        Json::Bool(value) => AttributeValue::Bool(*value),
        Json::Number(written) => AttributeValue::N(written.clone()),
        Json::String(text) => AttributeValue::S(text.clone()),
        Json::Array(values) => AttributeValue::L(values.iter().map(native).collect()),
        Json::Object(fields) => {
            let fields = fields.iter();
            AttributeValue::M(
                fields
                    .map(|(name, it)| (name.clone(), native(it)))
                    .collect(),
            )
        }
    }
}

/// A native value as JSON: sets become arrays and bytes base64.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK may know more types than today"
)]
fn json(value: &AttributeValue) -> Result<Box<RawValue>, StoreError> {
    let number = |written: &String| {
        RawValue::from_string(written.clone()).map_err(|error| invalid(error.to_string()))
    };

    match value {
        AttributeValue::Bool(value) => raw(value),
        AttributeValue::S(text) => raw(text),
        AttributeValue::B(bytes) => raw(&STANDARD.encode(bytes)),
        AttributeValue::N(written) => number(written),
        AttributeValue::Null(_) => raw(&()),
        AttributeValue::L(values) => {
            let values: Result<Vec<_>, _> = values.iter().map(json).collect();
            raw(&values?)
        }
        AttributeValue::M(fields) => {
            let fields = fields.iter();
            let fields: Result<std::collections::BTreeMap<_, _>, StoreError> =
                fields.map(|(name, it)| Ok((name, json(it)?))).collect();
            raw(&fields?)
        }
        AttributeValue::Ss(texts) => raw(texts),
        AttributeValue::Bs(all) => {
            let all: Vec<_> = all.iter().map(|bytes| STANDARD.encode(bytes)).collect();
            raw(&all)
        }
        AttributeValue::Ns(numbers) => {
            let numbers: Result<Vec<_>, _> = numbers.iter().map(number).collect();
            raw(&numbers?)
        }
        other => Err(invalid(format!(
            "the result has an unknown type: {other:?}"
        ))),
    }
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, StoreError> {
    to_raw_value(value).map_err(|error| invalid(error.to_string()))
}

fn invalid(message: String) -> StoreError {
    StoreError {
        error: Error::new("InvalidRecord", message),
        may_have_happened: false,
        refused_result: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_value_is_read_as_it_was_written() {
        let text = r#"{"a":[1,2.50,"x",null,true],"b":{},"n":12345678901234567890123}"#;
        let value = result(RecordFormat::TypeScript, text).unwrap();
        assert_eq!(json(&value).unwrap().get(), text);
    }

    #[test]
    fn what_only_dynamodb_has_becomes_json() {
        let text = |value: &AttributeValue| json(value).unwrap().to_string();
        let numbers = AttributeValue::Ns(vec!["1".to_owned(), "2.5".to_owned()]);
        assert_eq!(text(&numbers), "[1,2.5]");
        let bytes = AttributeValue::B(b"hi".to_vec().into());
        assert_eq!(text(&bytes), "\"aGk=\"");
    }
}
