//! The public keys that flags name.

use std::path::Path;

use backstop_versions::{KeyError, Keys};

/// Reads the keys. Returns `None` if no flag names one.
pub(super) fn read(named: &[String]) -> Result<Option<Keys>, KeyError> {
    match named {
        [] => Ok(None),
        named => Keys::read(named, Path::new("")).map(Some),
    }
}
