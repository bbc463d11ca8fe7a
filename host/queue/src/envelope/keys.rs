//! The keys by which a host knows that an envelope is its own, or one of its fleet: a message authentication code over the envelope, the queue, and the body and attributes of the message.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_files::regular_file;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::attribute::ENVELOPE;
use crate::message::{Attribute, Message, Outgoing};

/// The fewest and the most characters of a key. A short one could be guessed.
const CHARACTERS: std::ops::RangeInclusive<usize> = 32..=256;

/// The most keys of a file. While keys are rotated, there are two.
const MOST_KEYS: usize = 8;

/// The most bytes of the file.
const FILE_BYTES: usize = 4 << 10;

/// What every code begins with. Another use of the same key never makes the same code.
const PURPOSE: &str = "backstop-envelope-1";

/// What stands between the fields of an envelope and its code, which is the last one.
const BEFORE: &str = ",\"mac\":\"";

/// What ends an envelope that has a code.
const AFTER: &str = "\"}";

/// The length of a code in base64.
const CODE: usize = 43;

/// The keys of a fleet: the first one signs, and all verify. They are not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvelopeKeys(Arc<[Box<[u8]>]>);

impl fmt::Debug for EnvelopeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvelopeKeys({} keys)", self.0.len())
    }
}

/// Why a file has no usable keys.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeKeysError {
    /// The file can't be read.
    #[error("can't read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The file has no key.
    #[error(
        "{} has no key: expected one in each line, such as the output of `openssl rand -hex 32`",
        .0.display()
    )]
    Empty(PathBuf),
    /// The file has more keys than a rotation needs.
    #[error("{} has more than {MOST_KEYS} keys: remove those that no host signs with", .0.display())]
    TooMany(PathBuf),
    /// A line is no key. The line is not shown.
    #[error(
        "line {line} of {} is no key: expected {} to {} letters, digits and punctuation without spaces, such as the output of `openssl rand -hex 32`",
        path.display(), CHARACTERS.start(), CHARACTERS.end()
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
}

/// What a code is for, besides the envelope: all of a message that its sender chooses. The envelope itself is skipped.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    body: &'a str,
    attributes: &'a BTreeMap<String, Attribute>,
}

impl<'a> From<&'a Message> for Content<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            body: &message.body,
            attributes: &message.attributes,
        }
    }
}

impl<'a> From<&'a Outgoing> for Content<'a> {
    fn from(message: &'a Outgoing) -> Self {
        Self {
            body: &message.body,
            attributes: &message.attributes,
        }
    }
}

/// Who else may read a file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner and its group. A file that every user may read is refused.
    Few,
    /// Every user: in the package of a Lambda function, files must be readable by all, and there are no others.
    All,
}

impl Readers {
    /// How to write the file.
    fn advice(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Few => format!(
                "write one with `(umask 077; openssl rand -hex 32 > {path})`, and copy it to all hosts of the queue"
            ),
            Self::All => format!(
                "expected one in the function's package, the same as on all hosts of the queue, written with `openssl rand -hex 32 > {path}`"
            ),
        }
    }
}

impl EnvelopeKeys {
    /// The keys in a file, one in each line: the first one signs. Empty lines, and those that start with `#`, count for nothing.
    pub fn read(path: &Path, readers: Readers) -> Result<Self, EnvelopeKeysError> {
        let read = match readers {
            Readers::Few => regular_file::read_secret(path, FILE_BYTES),
            Readers::All => regular_file::read_text(path, FILE_BYTES),
        };
        let text = read.map_err(|cause| EnvelopeKeysError::Unreadable {
            path: path.to_owned(),
            cause: regular_file::advise_if_missing(cause, || readers.advice(path)),
        })?;
        let mut keys = Vec::new();
        for (line, key) in (1..).zip(text.lines().map(str::trim)) {
            if key.is_empty() || key.starts_with('#') {
                continue;
            }
            let is_key =
                CHARACTERS.contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_key {
                let path = path.to_owned();
                return Err(EnvelopeKeysError::Invalid { path, line });
            }
            keys.push(key.as_bytes().into());
        }
        match keys.len() {
            0 => Err(EnvelopeKeysError::Empty(path.to_owned())),
            1..=MOST_KEYS => Ok(Self(keys.into())),
            _ => Err(EnvelopeKeysError::TooMany(path.to_owned())),
        }
    }

    /// The keys in a file, as a host reads them: no other user of the machine may read it.
    pub fn of_file(path: &Path) -> Result<Self, EnvelopeKeysError> {
        Self::read(path, Readers::Few)
    }

    /// One key, made of this random number, that nobody else has: a host without a file of keys knows the envelopes that it made itself since its start, and no others.
    pub fn of_this_process(random: [u8; 32]) -> Self {
        Self([random.into()].into())
    }

    /// Adds the code to the text of an envelope: an object in JSON with at least one field. `queue` is the ARN of the queue to which the message is sent.
    pub fn sign(&self, queue: &str, content: Content<'_>, text: &str) -> String {
        let (Some(key), Some(fields)) = (self.0.first(), text.strip_suffix('}')) else {
            return text.to_owned();
        };
        let code = BASE64.encode(code(key, queue, content, fields));
        format!("{fields}{BEFORE}{code}{AFTER}")
    }

    /// Whether the text of an envelope has the code of one of the keys, for this queue and this message.
    pub fn verify(&self, queue: &str, message: &Message, text: &str) -> bool {
        let Some((fields, given)) = split(text) else {
            return false;
        };
        let Ok(given) = BASE64.decode(given) else {
            return false;
        };
        let is_of = |key: &[u8]| -> bool {
            code(key, queue, message.into(), fields)[..]
                .ct_eq(&given)
                .into()
        };
        self.0.iter().any(|key| is_of(key))
    }
}

/// The fields of an envelope, without the brace at their end, and its code.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_suffix(AFTER)?;
    let (rest, given) = text.split_at_checked(text.len().checked_sub(CODE)?)?;
    Some((rest.strip_suffix(BEFORE)?, given))
}

/// The code of an envelope. Each part has its length in front, so that no part can be taken for a piece of another.
fn code(key: &[u8], queue: &str, content: Content<'_>, fields: &str) -> [u8; 32] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        // Keys of any length are valid.
        return [0; 32];
    };
    let mut add = |part: &[u8]| {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    };
    for part in [PURPOSE, queue, fields, content.body] {
        add(part.as_bytes());
    }
    for (name, value) in content.attributes {
        if name == ENVELOPE {
            continue;
        }
        add(name.as_bytes());
        match value {
            Attribute::Text { data_type, value } => {
                add(b"text");
                add(data_type.as_bytes());
                add(value.as_bytes());
            }
            Attribute::Binary { data_type, value } => {
                add(b"binary");
                add(data_type.as_bytes());
                add(value);
            }
        }
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
