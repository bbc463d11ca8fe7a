//! The two record formats of Powertools for AWS Lambda: how they hash a value.

pub(crate) mod number;
pub(crate) mod python;
mod style;
pub(crate) mod typescript;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha2::Sha256;

use crate::json::Json;

/// Whose records the table holds. Powertools for Python and for TypeScript cannot read each other's.
///
/// ```
/// use backstop_idempotency::{Format, Idempotency, MemoryStore};
///
/// // The same key in a table of Powertools for Python and in one of TypeScript.
/// let key = |format| -> Result<String, Box<dyn std::error::Error>> {
///     let idempotency = Idempotency::builder(MemoryStore::new(format), "orders").build()?;
///     Ok(idempotency.key_for(&7)?.unwrap().as_str().to_owned())
/// };
/// assert_eq!(key(Format::Python)?, "orders#8f14e45fceea167a5a36dedd4bea2543");
/// assert_eq!(key(Format::TypeScript)?, "orders#jxTkX87qFnpaNt7dS+olQw==");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Powertools for AWS Lambda (Python): hexadecimal hashes of Python's JSON, results as JSON text.
    #[default]
    Python,
    /// Powertools for AWS Lambda (TypeScript): base64 hashes of JavaScript's JSON, results as values of DynamoDB.
    TypeScript,
}

impl Format {
    /// The format of this name: `python` or `typescript`.
    ///
    /// ```
    /// use backstop_idempotency::Format;
    ///
    /// assert_eq!(Format::by_name("typescript"), Some(Format::TypeScript));
    /// ```
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "python" => Some(Self::Python),
            "typescript" => Some(Self::TypeScript),
            _ => None,
        }
    }

    /// The hash of a value, as the key of a record contains it.
    pub(crate) fn hash(self, function: HashFunction, value: &Json) -> String {
        match self {
            Self::Python => hex::encode(function.digest(&python::text(value))),
            Self::TypeScript => STANDARD.encode(function.digest(&typescript::text(value))),
        }
    }
}

/// The hash in a record's key. Powertools uses MD5 unless it is configured otherwise.
///
/// ```
/// use backstop_idempotency::{HashFunction, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::builder(MemoryStore::default(), "orders")
///     .hash(HashFunction::Sha256)
///     .build()?;
/// # Ok::<(), backstop_idempotency::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HashFunction {
    /// MD5: for names that nobody has a reason to forge.
    #[default]
    Md5,
    /// SHA-256: for keys that a sender chooses, since two values with one MD5 can be made.
    Sha256,
}

impl HashFunction {
    fn digest(self, text: &str) -> Vec<u8> {
        match self {
            Self::Md5 => Md5::digest(text).to_vec(),
            Self::Sha256 => Sha256::digest(text).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_hashes_are_those_of_the_real_libraries() {
        let value = Json::parse(r#"{"id": 7}"#).unwrap();
        let hash = |format: Format| format.hash(HashFunction::Md5, &value);
        assert!(hash(Format::Python).starts_with("02bdf15d"));
        assert!(hash(Format::TypeScript).starts_with("+QlobErf"));
    }
}
