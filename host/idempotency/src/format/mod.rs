//! The two record formats of Powertools for AWS Lambda: how they hash a value.

pub(crate) mod number;
pub(crate) mod python;
mod style;
pub(crate) mod typescript;

use backstop_core::idempotency::RecordFormat;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha2::Sha256;

use crate::json::Json;

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
    /// The hash of a value, as the key of a record contains it.
    pub(crate) fn hash(self, format: RecordFormat, value: &Json) -> String {
        match format {
            RecordFormat::Python => hex::encode(self.digest(&python::text(value))),
            RecordFormat::TypeScript => STANDARD.encode(self.digest(&typescript::text(value))),
        }
    }

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
        let hash = |format| HashFunction::Md5.hash(format, &value);
        assert!(hash(RecordFormat::Python).starts_with("02bdf15d"));
        assert!(hash(RecordFormat::TypeScript).starts_with("+QlobErf"));
    }
}
