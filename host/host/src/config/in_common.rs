//! What messages have in common: what is down together, or shares a limit.

use std::fmt;

use backstop_core::text::{cut, one_line};
use backstop_json::pointer;

use super::keys::{Spot, Typed};
use super::{ConfigError, value};
use crate::queue::Message;

/// The most bytes of a key.
const KEY_BYTES: usize = 128;

/// What messages have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InCommon {
    /// The whole queue.
    Queue,
    /// The text at this JSON pointer into their bodies.
    Pointer(String),
    /// The text in this attribute.
    Attribute(String),
}

impl fmt::Display for InCommon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("queue"),
            Self::Pointer(pointer) => f.write_str(pointer),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
        }
    }
}

impl InCommon {
    pub(super) fn parse(text: &str, place: impl FnOnce() -> String) -> Result<Self, ConfigError> {
        let parsed = match text.strip_prefix("attribute:") {
            Some("") => None,
            Some(name) => Some(Self::Attribute(name.to_owned())),
            None if text == "queue" => Some(Self::Queue),
            None if text.is_empty() => None,
            None => pointer::tokens(text).map(|_| Self::Pointer(text.to_owned())),
        };
        parsed.ok_or_else(|| {
            value(
                place(),
                format!(
                    "`{text}` says nothing that messages have in common: expected queue, a JSON pointer such as /tenant, or an attribute such as attribute:tenant"
                ),
            )
        })
    }

    /// The key that a message has in common with others, as one line; that of the whole queue is empty. `None` if the message has none.
    pub(crate) fn key(&self, message: &Message) -> Option<String> {
        let text = match self {
            Self::Queue => return Some(String::new()),
            Self::Pointer(pointer) => pointer::shown_at(&message.body, pointer)?,
            Self::Attribute(name) => message.attributes.get(name)?.to_text(),
        };
        let mut text = one_line(&text);
        cut(&mut text, KEY_BYTES);
        (!text.is_empty()).then_some(text)
    }
}

/// What waiting messages are grouped by: something that messages of one queue may have different.
impl Typed<String> for InCommon {
    fn of(raw: &String, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        match Self::parse(raw, || spot.place())? {
            Self::Queue => Err(value(
                spot.place(),
                "all messages of the queue have that in common: expected a JSON pointer such as /tenant, or an attribute such as attribute:tenant",
            )),
            by @ (Self::Pointer(_) | Self::Attribute(_)) => Ok(by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::ordinary_message;

    #[test]
    fn a_key_is_one_line_of_a_bounded_length() {
        let of = |tenant: &str| {
            let message = Message {
                body: format!(r#"{{"tenant":"{tenant}"}}"#).into(),
                ..ordinary_message()
            };
            InCommon::Pointer("/tenant".to_owned()).key(&message)
        };
        assert_eq!(of(""), None);
        let key = of(&"é".repeat(500)).unwrap();
        assert!((100..=KEY_BYTES + 4).contains(&key.len()), "{}", key.len());
        let key = of("a\\nb").unwrap();
        assert_eq!(key.lines().count(), 1, "{key}");
    }

    #[test]
    fn a_key_is_the_queue_a_pointer_or_an_attribute() {
        for (text, expected) in [
            ("queue", Some(InCommon::Queue)),
            ("/tenant", Some(InCommon::Pointer("/tenant".to_owned()))),
            (
                "attribute:tenant",
                Some(InCommon::Attribute("tenant".to_owned())),
            ),
            ("attribute:", None),
            ("", None),
            ("tenant", None),
        ] {
            let parsed = InCommon::parse(text, || "by".to_owned());
            assert_eq!(parsed.ok(), expected, "{text}");
        }
    }
}
