//! How an evaluated policy is named in decision records and reports.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Policy, PolicyDigest};
use crate::settings::Settings;

/// Names a part of a policy in records and reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartName {
    /// The operator's name for it.
    pub name: String,
    /// The digest of its file.
    pub digest: PolicyDigest,
    /// Its settings.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub settings: Settings,
}

impl PartName {
    /// Names a policy in Rust. It has no file, so its digest is that of the text `rust:NAME`.
    pub fn native(policy: &dyn Policy) -> Self {
        let name = policy.name();
        Self {
            name: name.to_owned(),
            digest: PolicyDigest::of(format!("rust:{name}").as_bytes()),
            settings: policy.settings(),
        }
    }
}

fn is_empty(settings: &Settings) -> bool {
    settings.is_empty()
}

impl fmt::Display for PartName {
    /// For people: `full-jitter (3f2a91c04d17)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.digest.short())
    }
}

/// One line that a policy logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`; `stderr` for what a runtime printed.
    pub level: String,
    /// The text.
    pub message: String,
}
