//! Errors of anyhow.

use std::error::Error as StdError;

use backstop_core::failure::Error;

use super::{Describe, describe_by_causes};

/// By its causes.
impl Describe for anyhow::Error {
    fn describe(&self) -> Error {
        describe_by_causes(self.as_ref())
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.as_ref())
    }
}
