//! Whether a policy's file was signed by somebody whose key the operator accepts: minisign's detached signatures, checked before anything of the file is looked into.
//!
//! What is signed is the file, byte for byte, and nothing about where it is kept: one signature serves a file, a bucket and a registry.

use std::fmt;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign::{PublicKey, SignatureBox};

use backstop_files::regular_file;

/// What follows the name of a file in the name of its signature.
pub const SIGNATURE_SUFFIX: &str = ".minisig";

/// The longest signature that is read, in bytes. minisign's own tool keeps the comments in it below 8 KiB.
pub const LONGEST: usize = 16 << 10;

/// The bytes of the second line of a signature and of the fourth, which are in base64.
const LINES: [(usize, usize); 2] = [(1, 74), (3, 64)];

/// The public keys of those who may sign policies; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys(Vec<PublicKey>);

/// A list of public keys that is not one.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// An empty list, which nothing could be signed for.
    #[error(
        "no public key is named; expected at least one, such as `backstop policy keygen` makes"
    )]
    None,
    /// The file can't be read.
    #[error("can't read the public key {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Neither a key nor a file with one.
    #[error(
        "`{named}` is not a public key of minisign; expected its line of 56 characters, RW..., or the path of a file with that, such as policy.pub"
    )]
    Malformed {
        /// What was named.
        named: String,
    },
}

/// Why a policy's file is not taken for signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is none.
    #[error(
        "it is not signed, and only what is signed is accepted: `backstop policy sign FILE --key KEY` writes FILE.minisig, to be kept beside it; `backstop policy push --sign KEY` does both"
    )]
    Missing,
    /// Not a signature, or not a whole one.
    #[error(
        "its signature is not one of minisign's: {0}; `backstop policy sign FILE --key KEY` writes it anew"
    )]
    Malformed(String),
    /// By a key that is not among those accepted.
    #[error("it is signed with the key {id}, which is not accepted; expected {accepted}")]
    UnknownKey {
        /// The identifier of the key.
        id: String,
        /// Those that are accepted.
        accepted: String,
    },
    /// By an accepted key, and not of these bytes.
    #[error(
        "its signature with the key {id} does not fit: the file was changed after it was signed, or the signature is of another file"
    )]
    Wrong {
        /// The identifier of the key.
        id: String,
    },
}

/// The path of a file's detached signature: next to it, as minisign writes it.
pub fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(SIGNATURE_SUFFIX);
    PathBuf::from(path)
}

impl Keys {
    /// Reads keys, each given as its line in base64 or as the path of a file that minisign or `backstop policy keygen` wrote. A relative path is taken from `folder`.
    pub fn read(keys: &[String], folder: &Path) -> Result<Self, KeyError> {
        if keys.is_empty() {
            return Err(KeyError::None);
        }
        let keys = keys.iter().map(|named| read(named, folder));
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of these keys has signed exactly this file.
    pub fn verify(&self, file: &[u8], signature: Option<&str>) -> Result<(), SignatureError> {
        let signature = parsed(signature.ok_or(SignatureError::Missing)?)?;
        let id = key_id(signature.keynum());
        let keynum = signature.keynum();
        let mut named = self.0.iter().filter(|key| key.keynum() == keynum);
        let Some(first) = named.next() else {
            return Err(SignatureError::UnknownKey {
                id,
                accepted: self.to_string(),
            });
        };
        // Silent, and also in the older form of which the signed thing is the file itself and not its hash.
        let fits = |key: &PublicKey| {
            minisign::verify(key, &signature, Cursor::new(file), true, false, true).is_ok()
        };
        if fits(first) || named.any(fits) {
            Ok(())
        } else {
            Err(SignatureError::Wrong { id })
        }
    }
}

/// The identifiers of the keys.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.0.iter().map(|key| key_id(key.keynum())).collect();
        f.write_str(&ids.join(" or "))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({self})")
    }
}

/// The identifier of the key that a signature says it was made with, unverified.
pub fn signed_with(signature: &str) -> Result<String, SignatureError> {
    Ok(key_id(parsed(signature)?.keynum()))
}

/// A key's identifier as minisign writes it.
pub(super) fn key_id(keynum: &[u8]) -> String {
    let most_significant_first: Vec<u8> = keynum.iter().rev().copied().collect();
    hex::encode_upper(most_significant_first)
}

fn read(named: &str, folder: &Path) -> Result<PublicKey, KeyError> {
    if let Some(key) = key_in(named) {
        return Ok(key);
    }
    let path = folder.join(named);
    let text = regular_file::read_text(&path, LONGEST).map_err(|cause| {
        let is_path = cause.kind() != io::ErrorKind::NotFound || named.ends_with(".pub");
        if is_path {
            KeyError::Unreadable { path, cause }
        } else {
            KeyError::Malformed {
                named: named.to_owned(),
            }
        }
    })?;
    let key = text.lines().rfind(|line| !line.trim().is_empty());
    key.and_then(key_in).ok_or_else(|| KeyError::Malformed {
        named: named.to_owned(),
    })
}

/// The key that a line is, if it is one.
fn key_in(line: &str) -> Option<PublicKey> {
    let key = PublicKey::from_base64(line.trim()).ok()?;
    key.to_bytes().starts_with(b"Ed").then_some(key)
}

/// A signature of whole lines. minisign's library would panic over a short one.
fn parsed(text: &str) -> Result<SignatureBox, SignatureError> {
    let malformed = |why: &str| SignatureError::Malformed(why.to_owned());
    if text.len() > LONGEST {
        return Err(malformed("it is too long"));
    }
    for (line, bytes) in LINES {
        let line = text.lines().nth(line);
        let line = line.ok_or_else(|| malformed("it has fewer than four lines"))?;
        let found = BASE64.decode(line.trim()).map(|found| found.len());
        if found != Ok(bytes) {
            return Err(malformed("one of its lines is cut short or changed"));
        }
    }
    SignatureBox::from_string(text).map_err(|error| SignatureError::Malformed(error.to_string()))
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
