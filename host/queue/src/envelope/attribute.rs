//! The attribute that carries an envelope: its name, its size, and how much of a text it carries.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use backstop_core::failure::ID_BYTES;

use crate::limits::MAX_ATTRIBUTES;
use crate::message::Message;

/// The attribute's name.
pub const ENVELOPE: &str = "BackstopEnvelope";

/// The most bytes of the attribute, its name and data type included.
pub const MOST_BYTES: usize = 1_024;

/// The longest code or class that an envelope carries as it is, in bytes.
pub const CARRIED_BYTES: usize = 48;

/// Whether a message has room for an envelope: one attribute, within the queue's limit on sizes.
pub fn has_room(message: &Message, max_message_bytes: usize) -> bool {
    let others = message.attributes.len() - usize::from(message.attributes.contains_key(ENVELOPE));
    others < MAX_ATTRIBUTES
        && message.id.len() <= ID_BYTES
        && message.size().saturating_add(MOST_BYTES) <= max_message_bytes
}

/// A code or class as an envelope carries it: one that is long, or that JSON has to escape, as a part of its digest.
pub fn carried(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\');
    if text.len() <= CARRIED_BYTES && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        let digest = hex::encode(Sha256::digest(text));
        Cow::Owned(format!("sha256:{}", digest.get(..32).unwrap_or_default()))
    }
}
