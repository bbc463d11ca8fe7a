//! The key of an entry, as bytes that are equal if and only if the keys are.

use aws_sdk_dynamodb::types::{AttributeValue, WriteRequest};

use crate::target::Group;

/// The values of these attributes, with their types. `None` if one is missing or can't be in a key.
#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK's types may grow")]
pub(super) fn of(entry: &WriteRequest, names: &[String]) -> Option<Group> {
    let item = match (&entry.put_request, &entry.delete_request) {
        (Some(put), _) => &put.item,
        (None, Some(delete)) => &delete.key,
        (None, None) => return None,
    };
    let mut bytes = Vec::new();
    for name in names {
        let number;
        let (kind, value) = match item.get(name)? {
            AttributeValue::S(text) => (b'S', text.as_bytes()),
            AttributeValue::N(text) => {
                number = canonical(text);
                (b'N', number.as_bytes())
            }
            AttributeValue::B(blob) => (b'B', blob.as_ref()),
            _ => return None,
        };
        // With its length, so that no two values run together.
        bytes.push(kind);
        bytes.extend(value.len().to_be_bytes());
        bytes.extend(value);
    }
    Some(Group::new(bytes))
}

/// The number in one way of writing it: sign, digits without zeros at either end, exponent of ten. `1`, `1.0` and `10e-1` are the same. Text that is no number stays as it is.
fn canonical(text: &str) -> String {
    parse(text).unwrap_or_else(|| text.to_owned())
}

fn parse(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some("0".to_owned());
    }
    let zeros = i64::try_from(significant.len() - trimmed.len()).ok()?;
    let exponent = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(zeros)?;
    Some(format!("{sign}{trimmed}e{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamodb::{delete, put};
    use aws_sdk_dynamodb::primitives::Blob;

    fn key(first: AttributeValue, second: AttributeValue) -> Option<Group> {
        let names = ["a".to_owned(), "b".to_owned()];
        let pairs = [("a".to_owned(), first), ("b".to_owned(), second)];
        let deleted = of(&delete(pairs.clone()), &names);
        let more = ("c".to_owned(), AttributeValue::Bool(true));
        assert_eq!(of(&put(pairs.into_iter().chain([more])), &names), deleted);
        deleted
    }

    #[test]
    fn keys_are_the_same_if_types_and_values_are() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |text: &str| AttributeValue::N(text.to_owned());
        let bytes = |text: &str| AttributeValue::B(Blob::new(text.as_bytes()));
        let all = [
            key(text("a"), text("b")),
            key(text("b"), text("a")),
            key(text("ab"), text("")),
            key(text(""), text("ab")),
            key(text("1"), text("1")),
            key(number("1"), text("1")),
            key(bytes("1"), text("1")),
            key(number("-1"), text("1")),
            key(number("10"), text("1")),
            key(number("0.1"), text("1")),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(one.is_some());
            assert!(!all[..index].contains(one), "{one:?}");
        }
        let ones = ["1", "1.0", "+1", "01", "10e-1", "0.1E1", "0.01e+2"];
        for one in ones {
            assert_eq!(
                key(number(one), text("1")),
                key(number("1"), text("1")),
                "{one}"
            );
        }
        assert_eq!(key(number("0.0"), text("")), key(number("-0e9"), text("")));
        assert_eq!(key(AttributeValue::Bool(true), text("")), None);
    }

    #[test]
    fn an_entry_without_its_key_has_none() {
        assert_eq!(of(&put([]), &["id".to_owned()]), None);
        assert_eq!(
            of(&WriteRequest::builder().build(), &["id".to_owned()]),
            None
        );
    }
}
