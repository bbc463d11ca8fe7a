//! A report about the versions of a policy, for operators.

use backstop_core::failure::Timestamp;
use backstop_engine::PartName;
use serde::{Deserialize, Serialize};

/// The versions of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// The sources of its parts.
    pub sources: Vec<String>,
    /// The active version.
    pub live: Vec<PartName>,
    /// The active version, for people.
    pub title: String,
    /// When it became active, in milliseconds since 1970.
    pub since: Timestamp,
    /// The previous good version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The last version that was refused or rolled back, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The version that is being loaded, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling: Option<Compiling>,
    /// When the source was last checked, in milliseconds since 1970.
    #[serde(rename = "checked-at")]
    pub checked: Timestamp,
    /// Why the source can't be read, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
}

/// A version that is being compiled and validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiling {
    /// The shortened digests of its files.
    pub version: String,
    /// When it started, in milliseconds since 1970.
    pub since: Timestamp,
}
