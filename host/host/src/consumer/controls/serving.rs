//! How a queue is served, as hosts report it.

use serde::{Deserialize, Serialize};

use crate::failure::Timestamp;

/// A pause of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pause {
    /// When it began.
    pub since: Timestamp,
    /// When it ends by itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason of the operator, or of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who paused it.
    pub by: String,
}

/// How a queue is served now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Serving {
    /// Messages in hand.
    pub in_flight: usize,
    /// The most of them.
    pub max_in_flight: usize,
    /// The most messages that are received in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// The pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Why it is not polled, if it is not and there is no pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_polled: Option<String>,
}
