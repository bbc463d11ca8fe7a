//! Verifies that a policy's file was signed with a key that the operator accepts. The signatures are minisign's detached signatures, and are verified before anything of the file is parsed.
//!
//! A signature covers the bytes of the file, and not its location: the same signature is valid for a file, an object and an artifact.

use std::fmt;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign::{PublicKey, SignatureBox};

use backstop_files::regular_file;

/// The suffix of a signature's file name.
pub const SIGNATURE_SUFFIX: &str = ".minisig";

/// The longest accepted signature, in bytes. minisign's own tool limits the comments in it to 8 KiB.
pub const LONGEST: usize = 16 << 10;

/// The sizes of the second and the fourth line of a signature, which are in base64.
const LINES: [(usize, usize); 2] = [(1, 74), (3, 64)];

/// The public keys that may sign policies; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys(Vec<PublicKey>);

/// Why a list of public keys is invalid.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// An empty list, which no signature could satisfy.
    #[error(
        "no public key is given; expected at least one, such as `backstop policy keygen` generates"
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
        /// The text.
        named: String,
    },
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "it is not signed, and only signed policies are accepted: `backstop policy sign FILE --key KEY` writes FILE.minisig, which belongs next to the file; `backstop policy push --sign KEY` signs and uploads both"
    )]
    Missing,
    /// It is not a signature, or incomplete.
    #[error(
        "its signature is not one of minisign's: {0}; `backstop policy sign FILE --key KEY` writes a new one"
    )]
    Malformed(String),
    /// It is by a key that is not accepted.
    #[error("it is signed with the key {id}, which is not accepted; expected {accepted}")]
    UnknownKey {
        /// The identifier of the key.
        id: String,
        /// The accepted keys.
        accepted: String,
    },
    /// It is by an accepted key, but covers other bytes.
    #[error(
        "its signature with the key {id} does not match: the file was changed after it was signed, or the signature is of another file"
    )]
    Wrong {
        /// The identifier of the key.
        id: String,
    },
}

/// The path of a file's detached signature, which is next to the file, as with minisign.
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

    /// Verifies that one of these keys has signed exactly this file.
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
        // Without output; the older form, which signs the file itself and not its hash, is accepted too.
        let matches = |key: &PublicKey| {
            minisign::verify(key, &signature, Cursor::new(file), true, false, true).is_ok()
        };
        if matches(first) || named.any(matches) {
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

/// The identifier of the key that a signature claims, unverified.
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

/// The key in a line, if there is one.
fn key_in(line: &str) -> Option<PublicKey> {
    let key = PublicKey::from_base64(line.trim()).ok()?;
    key.to_bytes().starts_with(b"Ed").then_some(key)
}

/// Parses a signature. Its lines are checked first: minisign's library panics on a short one.
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
            return Err(malformed("one of its lines is incomplete or changed"));
        }
    }
    SignatureBox::from_string(text).map_err(|error| SignatureError::Malformed(error.to_string()))
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
