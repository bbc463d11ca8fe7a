//! The public keys that flags name.

use std::path::Path;

use backstop_versions::{KeyError, Keys};

/// Reads the keys, which may have to sign for one policy. Returns `None` if no flag names one.
pub(super) fn read(named: &[String], signed_for: Option<String>) -> Result<Option<Keys>, KeyError> {
    match named {
        [] => Ok(None),
        named => {
            let keys = Keys::read(named, Path::new(""))?;
            Ok(Some(keys.signed_for(signed_for)))
        }
    }
}
