//! The bytes of an item, by the rules of DynamoDB's documentation.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, WriteRequest};

/// The bytes of an entry: the names and values of its attributes, as DynamoDB counts them. The size of a number is an estimate that is never too large.
///
/// ```
/// use aws_sdk_dynamodb::types::AttributeValue::S;
/// use backstop_deliver::dynamodb::{put, size};
/// assert_eq!(size(&put([("id".to_owned(), S("seven".to_owned()))])), 7);
/// ```
pub fn size(entry: &WriteRequest) -> usize {
    let put = entry.put_request.as_ref().map_or(0, |put| map(&put.item));
    let delete = entry.delete_request.as_ref();
    put + delete.map_or(0, |delete| map(&delete.key))
}

fn map(attributes: &HashMap<String, AttributeValue>) -> usize {
    let sizes = attributes.iter();
    sizes.map(|(name, it)| name.len() + value(it)).sum()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK's types may grow")]
fn value(attribute: &AttributeValue) -> usize {
    use AttributeValue as A;
    match attribute {
        A::S(text) => text.len(),
        A::N(digits) => number(digits),
        A::B(blob) => blob.as_ref().len(),
        A::Ss(texts) => texts.iter().map(String::len).sum(),
        A::Ns(numbers) => numbers.iter().map(|it| number(it)).sum(),
        A::Bs(blobs) => blobs.iter().map(|blob| blob.as_ref().len()).sum(),
        A::L(values) => 3 + values.iter().map(|it| 1 + value(it)).sum::<usize>(),
        A::M(attributes) => 3 + attributes.len() + map(attributes),
        A::Bool(_) | A::Null(_) => 1,
        _ => 0,
    }
}

/// A byte for two significant digits, and one more. The zeros at either end do not count.
fn number(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.trim_matches(|it: char| !('1'..='9').contains(&it));
    let count = digits.bytes().filter(u8::is_ascii_digit).count();
    count / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamodb::put;

    #[test]
    fn names_values_and_nested_values_count() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |text: &str| AttributeValue::N(text.to_owned());
        for (value, expected) in [
            (text("é"), 2),
            (number("-12.50"), 2),
            (number("1000000"), 1),
            (AttributeValue::Null(true), 1),
            (AttributeValue::Ss(vec!["a".to_owned(), "bc".to_owned()]), 3),
            (AttributeValue::L(vec![text("a"), number("1")]), 3 + 2 + 2),
            (
                AttributeValue::M([("k".to_owned(), text("v"))].into()),
                3 + 1 + 2,
            ),
        ] {
            let entry = put([("name".to_owned(), value)]);
            assert_eq!(size(&entry), 4 + expected, "{entry:?}");
        }
    }
}
