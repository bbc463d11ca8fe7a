//! The limits of SQS, from its API model (2026) and its documentation.

use std::time::Duration;

/// The most entries of one batch request.
pub const BATCH_ENTRIES: usize = 10;

/// The largest total size of the messages of one batch request, and the default limit for one message, in bytes.
pub const BATCH_BYTES: usize = 1 << 20;

/// The most attributes of one message.
pub const MAX_ATTRIBUTES: usize = 10;

/// The longest delay of a message that is sent (`DelaySeconds`): 15 minutes.
pub const LONGEST_SEND_DELAY: Duration = Duration::from_secs(900);

/// Whether a message may contain the character. SQS allows the characters of XML 1.0.
pub fn is_allowed(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}
