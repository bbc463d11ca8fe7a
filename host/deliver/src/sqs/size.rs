//! The bytes of a message, as SQS counts them.

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use backstop_queue::message_size;

/// The bytes of a message: its body, and the names, types and values of its attributes. The trace header is not counted.
///
/// ```
/// use backstop_deliver::sqs::{message, size};
/// assert_eq!(size(&message("order 7").build().unwrap()), 7);
/// ```
pub fn size(entry: &SendMessageBatchRequestEntry) -> usize {
    let attributes = entry.message_attributes.iter().flatten();
    let attributes = attributes.map(|(name, value)| (name.as_str(), attribute(value)));
    message_size(&entry.message_body, attributes)
}

fn attribute(value: &MessageAttributeValue) -> usize {
    let text = value.string_value.as_ref().map_or(0, String::len);
    let bytes = value.binary_value.as_ref();
    value.data_type.len() + text + bytes.map_or(0, |bytes| bytes.as_ref().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqs::message;
    use aws_sdk_sqs::primitives::Blob;

    #[test]
    fn the_attributes_count_with_their_names_and_types() {
        let text = MessageAttributeValue::builder()
            .data_type("String")
            .string_value("é");
        let binary = MessageAttributeValue::builder()
            .data_type("Binary")
            .binary_value(Blob::new([0; 100]));
        let entry = message("body")
            .message_attributes("tenant", text.build().unwrap())
            .message_attributes("raw", binary.build().unwrap());
        let expected = 4 + (6 + 6 + 2) + (3 + 6 + 100);
        assert_eq!(size(&entry.build().unwrap()), expected);
    }
}
