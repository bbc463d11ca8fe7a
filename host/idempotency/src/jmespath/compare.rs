//! How the two languages compare values.

use std::cmp::Ordering;
use std::collections::HashMap;

use backstop_core::idempotency::RecordFormat;

use super::numbers;
use crate::json::Json;

/// `==` of the expression.
pub(super) fn are_equal(format: RecordFormat, left: &Json, right: &Json) -> bool {
    // Only at the top, 0 and 1 are not `false` and `true` in Python.
    let is_mixed = matches!(
        (left, right),
        (Json::Bool(_), Json::Number(_)) | (Json::Number(_), Json::Bool(_))
    );
    !is_mixed && are_the_same(format, left, right)
}

/// `==` of Python, in which `True` is 1; a comparison field by field in TypeScript.
pub(super) fn are_the_same(format: RecordFormat, left: &Json, right: &Json) -> bool {
    let is = |left: &Json, right: &Json| are_the_same(format, left, right);
    match (left, right) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(left), Json::Bool(right)) => left == right,
        (Json::Number(left), Json::Number(right)) => {
            numbers::compare(format, left, right) == Some(Ordering::Equal)
        }
        (Json::Bool(truth), Json::Number(number)) | (Json::Number(number), Json::Bool(truth)) => {
            let truth = if *truth { "1" } else { "0" };
            format == RecordFormat::Python
                && numbers::compare(format, number, truth) == Some(Ordering::Equal)
        }
        (Json::String(left), Json::String(right)) => left == right,
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| is(a, b))
        }
        (Json::Object(left), Json::Object(right)) => {
            let others: HashMap<_, _> = right.iter().map(|(name, it)| (name, it)).collect();
            let has = |(name, value): &(String, Json)| {
                others.get(name).is_some_and(|other| is(value, other))
            };
            left.len() == right.len() && left.iter().all(has)
        }
        _ => false,
    }
}

/// The order of two values for `<` and the like: `None` if the library compares no such values, `Some(None)` if neither is less.
pub(super) fn ordered(
    format: RecordFormat,
    left: &Json,
    right: &Json,
) -> Result<Option<Option<Ordering>>, String> {
    match (format, left, right) {
        (_, Json::Number(left), Json::Number(right)) => {
            Ok(Some(numbers::compare(format, left, right)))
        }
        (RecordFormat::Python, Json::String(left), Json::String(right)) => {
            Ok(Some(Some(left.cmp(right))))
        }
        (RecordFormat::Python, Json::String(_), Json::Number(_))
        | (RecordFormat::Python, Json::Number(_), Json::String(_)) => {
            Err("a number and a string have no order".to_owned())
        }
        _ => Ok(None),
    }
}

/// The order of two numbers or two strings: by code point in Python, by UTF-16 in JavaScript.
pub(super) fn by_value(
    format: RecordFormat,
    left: &Json,
    right: &Json,
) -> Result<Ordering, String> {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => numbers::compare(format, left, right)
            .ok_or_else(|| "what is not a number has no order".to_owned()),
        (Json::String(left), Json::String(right)) => Ok(match format {
            RecordFormat::Python => left.cmp(right),
            RecordFormat::TypeScript => left.encode_utf16().cmp(right.encode_utf16()),
        }),
        _ => Err("expected numbers only or strings only".to_owned()),
    }
}

/// As [`by_value`], for the `sort` of TypeScript: it orders strings by the rules of a locale, which are known here for digits and small letters of ASCII.
pub(super) fn by_locale(
    format: RecordFormat,
    left: &Json,
    right: &Json,
) -> Result<Ordering, String> {
    if format == RecordFormat::TypeScript
        && let (Json::String(left), Json::String(right)) = (left, right)
    {
        let is_plain = |text: &str| {
            let mut bytes = text.bytes();
            bytes.all(|it| it.is_ascii_digit() || it.is_ascii_lowercase())
        };
        if !is_plain(left) || !is_plain(right) {
            return Err("Powertools for TypeScript sorts strings by its locale: only strings of 0 to 9 and a to z can be sorted here".to_owned());
        }
    }
    by_value(format, left, right)
}
