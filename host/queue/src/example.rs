//! A message for tests, which change what they need of it.

use std::num::NonZeroU32;

use tokio::time::Instant;

use super::{Message, ReceiptHandle};
use backstop_core::failure::Timestamp;

/// The most ordinary message: without attributes, on a standard queue, at its first receive.
pub fn ordinary_message() -> Message {
    Message {
        id: "m-1".to_owned(),
        receipt_handle: ReceiptHandle("r".into()),
        body: "body".into(),
        attributes: Default::default(),
        receive_count: NonZeroU32::MIN,
        sent: Timestamp(1_000),
        kept_since: Timestamp(1_000),
        first_received: Timestamp(2_000),
        received: Instant::now(),
        sender: None,
        group: None,
        deduplication_id: None,
        trace_header: None,
        dead_letter_source: None,
        envelope: None,
        received_in: None,
    }
}
