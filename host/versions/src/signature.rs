//! Verifies that a policy's file was signed with a key that the operator accepts. The signatures are minisign's detached signatures, and are verified before anything of the file is parsed.
//!
//! A signature covers the bytes of the file, and not its location: the same signature is valid for a file, an object and an artifact. Its trusted comment has the name of a policy and the time, which [`Keys::signed_for`] requires: then a file that was signed for another policy is not accepted, and the pipeline accepts none that is older than one that was active.

use std::fmt;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign::{PublicKey, SignatureBox};

use backstop_core::failure::Timestamp;
use backstop_core::text::{cut, one_line};
use backstop_files::regular_file;

/// The suffix of a signature's file name.
pub const SIGNATURE_SUFFIX: &str = ".minisig";

/// The longest accepted signature, in bytes. minisign's own tool limits the comments in it to 8 KiB.
pub const LONGEST: usize = 16 << 10;

/// The sizes of the second and the fourth line of a signature, which are in base64.
const LINES: [(usize, usize); 2] = [(1, 74), (3, 64)];

/// The longest name of a policy in a signature, in bytes.
const LONGEST_NAME: usize = 100;

/// The public keys that may sign policies; never empty. With the name of a policy, signatures must be for that one.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<PublicKey>,
    signed_for: Option<String>,
}

/// What a valid signature says about its file: minisign's trusted comment, which is signed too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The identifier of the key.
    pub id: String,
    /// The name of the policy that the file was signed for.
    pub policy: Option<String>,
    /// When it was signed, by the clock of whoever signed it.
    pub at: Option<Timestamp>,
}

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
    /// It is valid, but the file was signed for another policy, or for none.
    #[error(
        "its signature with the key {id} is for {}, and `signed-for` requires the policy `{expected}`: `backstop policy sign FILE --key KEY --for {expected}` writes a new one",
        .found.as_ref().map_or("no policy".to_owned(), |found| format!("the policy `{found}`"))
    )]
    OtherPolicy {
        /// The identifier of the key.
        id: String,
        /// The name of the policy that it is for.
        found: Option<String>,
        /// The name that is required.
        expected: String,
    },
    /// It is valid and for this policy, but does not say when the file was signed.
    #[error(
        "its signature with the key {id} has no time, which `signed-for` requires: `backstop policy sign FILE --key KEY --for {expected}` writes a new one"
    )]
    NoTime {
        /// The identifier of the key.
        id: String,
        /// The name that is required.
        expected: String,
    },
    /// It is valid, but older than that of a version that was active.
    #[error(
        "it was signed at {}, and a version signed at {} has been active: sign it again to return to it, or pin the policy to its digest",
        .at.rfc3339(),
        .newest.rfc3339()
    )]
    Older {
        /// When it was signed.
        at: Timestamp,
        /// When the newest version that was active was signed.
        newest: Timestamp,
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
        Ok(Self {
            keys: keys.collect::<Result<_, _>>()?,
            signed_for: None,
        })
    }

    /// The same keys; if a policy is named, files must be signed for it, with a time.
    #[must_use]
    pub fn signed_for(self, policy: Option<String>) -> Self {
        Self {
            signed_for: policy,
            ..self
        }
    }

    /// Whether signatures must name a policy and a time.
    pub(crate) fn is_for_one_policy(&self) -> bool {
        self.signed_for.is_some()
    }

    /// Verifies that one of these keys has signed exactly this file, for the policy if one is named. Returns what the signature says.
    pub fn verify(&self, file: &[u8], signature: Option<&str>) -> Result<Signed, SignatureError> {
        let signature = parsed(signature.ok_or(SignatureError::Missing)?)?;
        let id = key_id(signature.keynum());
        let keynum = signature.keynum();
        let mut named = self.keys.iter().filter(|key| key.keynum() == keynum);
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
        if !matches(first) && !named.any(matches) {
            return Err(SignatureError::Wrong { id });
        }
        let signed = Signed::of(id, &signature);
        match &self.signed_for {
            Some(policy) => signed.check(policy).map(|()| signed),
            None => Ok(signed),
        }
    }
}

impl Signed {
    fn of(id: String, signature: &SignatureBox) -> Self {
        let comment = signature.trusted_comment().unwrap_or_default();
        let named = |name: &str| {
            let mut parts = comment
                .split('\t')
                .filter_map(|part| part.strip_prefix(name));
            let first = parts.next()?;
            // A comment that says two things says nothing.
            parts.next().is_none().then(|| first.to_owned())
        };
        let seconds = named("timestamp:").and_then(|seconds| seconds.parse::<u64>().ok());
        Self {
            id,
            policy: named("policy:").map(|policy| one_line(&policy)),
            at: seconds.and_then(|seconds| seconds.checked_mul(1_000).map(Timestamp)),
        }
    }

    fn check(&self, policy: &str) -> Result<(), SignatureError> {
        let id = self.id.clone();
        let expected = policy.to_owned();
        if self.policy.as_deref() != Some(policy) {
            let found = self.policy.clone();
            return Err(SignatureError::OtherPolicy {
                id,
                found,
                expected,
            });
        }
        match self.at {
            Some(_) => Ok(()),
            None => Err(SignatureError::NoTime { id, expected }),
        }
    }
}

/// What it says, for people: `the key 0123456789ABCDEF for the policy orders at 2026-11-23T19:00:00Z`.
impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key {}", self.id)?;
        if let Some(policy) = &self.policy {
            write!(f, " for the policy {policy}")?;
        }
        match self.at {
            Some(at) => write!(f, " at {}", at.rfc3339()),
            None => Ok(()),
        }
    }
}

/// The name of a policy in a signature: letters, digits, `-`, `_`, `.` and `/`.
pub fn policy_name(text: &str) -> Result<String, InvalidName> {
    let is_valid = (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_name);
    is_valid
        .then(|| text.to_owned())
        .ok_or_else(|| InvalidName(one_line(text)))
}

/// Not the name of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a policy: expected 1 to {LONGEST_NAME} letters, digits, -, _, . or /, such as orders"
)]
pub struct InvalidName(String);

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')
}

/// The name of the policy in a file, from the name of the file: `orders` for `orders.wasm`.
pub fn policy_of_file(name: &str) -> String {
    let stem = Path::new(name).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut name: String = stem
        .chars()
        .map(|c| if is_name(c) { c } else { '_' })
        .collect();
    cut(&mut name, LONGEST_NAME);
    name
}

/// The identifiers of the keys.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.iter().map(|key| key_id(key.keynum())).collect();
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
            let cause = regular_file::advise_if_missing(cause, || {
                "correct the path, or create a pair of keys with `backstop policy keygen NAME`, whose public one is NAME.pub".to_owned()
            });
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
