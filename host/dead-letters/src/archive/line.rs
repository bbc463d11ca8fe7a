//! One letter as a line of JSON, and back.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::failure::Timestamp;
use backstop_queue::dead_letter::DIED;
use backstop_queue::{Attribute, Description, MAX_ATTRIBUTES, Message, Outgoing, ReceiptHandle};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::filter::LONGEST_ID;
use crate::letter::Letter;
use crate::origin::Origin;

/// The version of the format.
const VERSION: u32 = 1;

/// A letter in an archive: everything that SQS has said about it.
///
/// ```
/// use backstop_dead_letters::ArchivedLetter;
///
/// let line = r#"{"version":1,"id":"m-1","queue":"arn:aws:sqs:eu-west-1:1:dead","archived":1,"body":"an order","sent":0}"#;
/// let letter = ArchivedLetter::parse(line)?;
/// assert_eq!(letter.id, "m-1");
/// # Ok::<(), backstop_dead_letters::InvalidLine>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ArchivedLetter {
    version: u32,
    /// The letter's id in its queue.
    pub id: String,
    /// The ARN of the dead-letter queue.
    pub queue: String,
    /// When it was archived.
    pub archived: Timestamp,
    /// The body.
    pub body: Arc<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deduplication_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sender: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter_source: Option<String>,
    sent: Timestamp,
    #[serde(default)]
    first_received: Timestamp,
    #[serde(default)]
    receives: u32,
}

/// The value of an attribute: text, or bytes in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Value {
    #[serde(rename = "type")]
    data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// A line is not a letter, for this reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLine(String);

impl InvalidLine {
    fn no_letter(why: impl std::fmt::Display) -> Self {
        Self(format!("not a letter of an archive: {why}"))
    }
}

impl ArchivedLetter {
    /// A letter of the queue with this ARN, archived now.
    pub fn of(message: &Message, queue: &str, now: Timestamp) -> Self {
        let attributes = message.attributes.iter();
        Self {
            version: VERSION,
            id: message.id.clone(),
            queue: queue.to_owned(),
            archived: now,
            body: Arc::clone(&message.body),
            attributes: attributes
                .map(|(name, value)| (name.clone(), Value::of(value)))
                .collect(),
            group: message.group.clone(),
            deduplication_id: message.deduplication_id.clone(),
            trace_header: message.trace_header.clone(),
            sender: message.sender.clone(),
            dead_letter_source: message.dead_letter_source.clone(),
            sent: message.sent,
            first_received: message.first_received,
            receives: message.receive_count.get(),
        }
    }

    /// Its bytes in memory, about.
    pub fn size(&self) -> usize {
        let Self {
            group,
            deduplication_id,
            trace_header,
            sender,
            dead_letter_source,
            ..
        } = self;
        let texts = [
            group,
            deduplication_id,
            trace_header,
            sender,
            dead_letter_source,
        ];
        let texts = texts.into_iter().flatten().map(String::len);
        let attributes = self.attributes.iter().map(|(name, value)| {
            let texts = [&value.value, &value.base64].into_iter().flatten();
            name.len() + value.data_type.len() + texts.map(String::len).sum::<usize>()
        });
        let own = self.id.len() + self.queue.len() + self.body.len();
        own + texts.chain(attributes).sum::<usize>()
    }

    /// Its line, with the line break.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Reads a line as it is in a file.
    pub(super) fn parse_bytes(line: &[u8]) -> Result<Self, InvalidLine> {
        let text = std::str::from_utf8(line);
        Self::parse(text.map_err(|_| InvalidLine::no_letter("it is not UTF-8"))?)
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, InvalidLine> {
        let letter: Self = backstop_json::object(line).map_err(InvalidLine::no_letter)?;
        if letter.version != VERSION {
            return Err(InvalidLine(format!(
                "written in version {} of the format, which this version of Backstop does not know",
                letter.version
            )));
        }
        if letter.id.len() > LONGEST_ID {
            let why = format!("its id has more than {LONGEST_ID} bytes");
            return Err(InvalidLine::no_letter(why));
        }
        match letter.attributes.iter().find(|it| it.1.read().is_none()) {
            Some((name, _)) => Err(InvalidLine(format!(
                "the attribute `{name}` has neither a text nor bytes in base64"
            ))),
            None => Ok(letter),
        }
    }

    /// The letter, as it was when it was archived.
    pub fn letter(&self) -> Letter {
        Letter::of(Message {
            id: self.id.clone(),
            receipt_handle: ReceiptHandle("".into()),
            body: Arc::clone(&self.body),
            attributes: self.attributes(),
            receive_count: NonZeroU32::new(self.receives).unwrap_or(NonZeroU32::MIN),
            sent: self.sent,
            kept_since: self.sent,
            first_received: self.first_received,
            received: Instant::now(),
            sender: self.sender.clone(),
            group: self.group.clone(),
            deduplication_id: self.deduplication_id.clone(),
            trace_header: self.trace_header.clone(),
            dead_letter_source: self.dead_letter_source.clone(),
            envelope: None,
            received_in: None,
        })
    }

    fn attributes(&self) -> BTreeMap<String, Attribute> {
        let attributes = self.attributes.iter();
        attributes
            .filter_map(|(name, value)| Some((name.clone(), value.read()?)))
            .collect()
    }

    /// The message that puts it back into a queue.
    ///
    /// Nobody can send what SQS itself knows of a message, so each letter gets an attribute with the time of its death, and one that SQS's own redrive policy has moved others with its id, its queue and the time of its first send, as far as there is space. On a FIFO queue it has a deduplication id of its own: with the old one, SQS would drop a letter that is put back within five minutes.
    pub fn outgoing(&self, queue: &Description) -> Outgoing {
        let mut outgoing = Outgoing {
            body: Arc::clone(&self.body),
            attributes: self.attributes(),
            group: self
                .group
                .clone()
                .or_else(|| queue.fifo.then(|| self.id.clone())),
            deduplication_id: queue
                .fifo
                .then(|| format!("{}-{}", self.id, self.archived.0)),
            trace_header: self.trace_header.clone(),
            delay: None,
        };
        let letter = self.letter();
        let mut known = Vec::new();
        if letter.origin == Origin::Sqs {
            // A sender may have forged one.
            outgoing.attributes.remove("BackstopSource");
            let source = letter.source.as_ref().map(|source| Attribute::Text {
                data_type: "String.arn".to_owned(),
                value: source.arn().to_owned(),
            });
            known.extend(source.map(|source| ("BackstopSource", source)));
            let id = Attribute::string(&letter.original_id);
            known.push(("BackstopMessageId", id));
            let first_sent = letter.first_sent.map(|time| Attribute::number(time.0));
            known.extend(first_sent.map(|time| ("BackstopFirstSent", time)));
        }
        // What an earlier restore has written is in the letter's own time.
        outgoing.attributes.remove(DIED);
        known.push((DIED, Attribute::number(letter.last_alive().0)));
        for (name, value) in known {
            let size = outgoing.size() + name.len() + value.size();
            if outgoing.attributes.len() < MAX_ATTRIBUTES && size <= queue.max_message_bytes {
                outgoing.attributes.entry(name.to_owned()).or_insert(value);
            }
        }
        outgoing
    }
}

impl Value {
    fn of(attribute: &Attribute) -> Self {
        match attribute {
            Attribute::Text { data_type, value } => Self {
                data_type: data_type.clone(),
                value: Some(value.clone()),
                base64: None,
            },
            Attribute::Binary { data_type, value } => Self {
                data_type: data_type.clone(),
                value: None,
                base64: Some(STANDARD.encode(value)),
            },
        }
    }

    fn read(&self) -> Option<Attribute> {
        let data_type = self.data_type.clone();
        match (&self.value, &self.base64) {
            (Some(value), None) => Some(Attribute::Text {
                data_type,
                value: value.clone(),
            }),
            (None, Some(text)) => Some(Attribute::Binary {
                data_type,
                value: STANDARD.decode(text).ok()?,
            }),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::{Connections, Queue};
    use proptest::prelude::*;

    fn archived(body: &str, bytes: &[u8]) -> ArchivedLetter {
        let line = r#"{"version":1,"id":"m-1","queue":"q","archived":9,"body":"","sent":5,"dead-letter-source":"arn:aws:sqs:eu-west-1:1:orders"}"#;
        let mut letter = ArchivedLetter::parse(line).unwrap();
        letter.body = body.into();
        let binary = Attribute::Binary {
            data_type: "Binary.x".to_owned(),
            value: bytes.to_vec(),
        };
        letter.attributes.insert("b".to_owned(), Value::of(&binary));
        letter
    }

    #[tokio::test]
    async fn what_only_sqs_knew_goes_into_attributes() {
        let standard = Connections::default().local.named("dead");
        let mut queue = standard.describe().await.unwrap();
        let back = archived("x", &[1]).outgoing(&queue);
        let text = |name: &str| back.attributes.get(name).map(Attribute::to_text);
        assert_eq!(
            text("BackstopSource").unwrap(),
            "arn:aws:sqs:eu-west-1:1:orders"
        );
        assert_eq!(text("BackstopMessageId").unwrap(), "m-1");
        assert_eq!(text("BackstopFirstSent").unwrap(), "5");
        // When it died, SQS did not say: nobody has received it since.
        assert_eq!(text("BackstopDied").unwrap(), "5");
        assert_eq!((back.group, back.deduplication_id), (None, None));
        queue.fifo = true;
        queue.max_message_bytes = 40;
        let back = archived("x", &[1]).outgoing(&queue);
        assert_eq!(back.group.as_deref(), Some("m-1"));
        assert_eq!(back.deduplication_id.as_deref(), Some("m-1-9"));
        assert!(back.size() <= 40, "{back:?}");
    }

    #[test]
    fn a_line_that_is_no_letter_is_rejected_with_the_reason() {
        for (line, expected) in [
            ("", "not a letter"),
            ("[1]", "expected an object"),
            (r#"{"version":1}"#, "missing field `id`"),
            (
                r#"{"version":2,"id":"m","queue":"q","archived":1,"body":"b","sent":1}"#,
                "version 2",
            ),
            (
                r#"{"version":1,"id":"m","queue":"q","archived":1,"body":"b","sent":1,"attributes":{"a":{"type":"Binary","base64":"?"}}}"#,
                "the attribute `a`",
            ),
        ] {
            let error = ArchivedLetter::parse(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_letter_survives_its_line(body: String, bytes: Vec<u8>) {
            let letter = archived(&body, &bytes);
            let line = letter.line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(ArchivedLetter::parse(&line).unwrap(), letter);
        }
    }
}
