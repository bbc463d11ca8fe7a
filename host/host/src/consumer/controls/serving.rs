//! How a queue is served, as hosts report it.

use backstop_core::clock;
use serde::{Deserialize, Serialize};

use super::Controls;
use crate::failure::{Milliseconds, Timestamp};

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

/// The limits for each key of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EachServing {
    /// What the messages of a key have in common.
    pub by: String,
    /// The most attempts of a key that begin in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// The most attempts of a key at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    /// The number of keys that are at a limit.
    pub keys: usize,
    /// Those with the most messages that wait: 20 at most.
    pub limited: Vec<LimitedKey>,
}

/// A key that is at a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LimitedKey {
    /// The key.
    pub key: String,
    /// Its attempts under way.
    pub in_flight: usize,
    /// Its messages that wait in memory.
    pub waiting: usize,
    /// Its messages that are held back.
    pub held_back: usize,
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
    /// The limits for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<EachServing>,
    /// The pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Why it is not polled, if it is not and there is no pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_polled: Option<String>,
}

impl Controls {
    /// How the queue is served. `problem` is why it is not polled, if it is not.
    pub(crate) fn serving(&self, problem: Option<String>) -> Serving {
        self.end_if_over();
        let state = self.state();
        let paused = state.pause();
        Serving {
            in_flight: self.budget.in_hand(),
            max_in_flight: self.budget.most(),
            rate: state.pace.as_ref().map(|pace| pace.rate().to_string()),
            each: self.each.serving(),
            not_polled: problem.filter(|_| paused.is_none()),
            paused,
        }
    }

    /// The pause, as the rest of a sentence about the queue.
    pub(crate) fn pause_text(&self) -> Option<String> {
        self.end_if_over();
        let state = self.state();
        let Pause { by, why, until, .. } = state.pause()?;
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let left = until.map(|until| Milliseconds::from_duration(until.since(clock::now())));
        let left = left.map_or(String::new(), |left| format!(" for another {left}"));
        Some(format!("is paused{left} by {by}{why}"))
    }
}
