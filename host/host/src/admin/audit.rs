//! What operators have asked this host for since its start: the last actions, with who asked and what came of it.

use std::collections::VecDeque;
use std::sync::Mutex;

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use serde::{Deserialize, Serialize};

/// The most actions that are kept. The log has all.
pub(crate) const KEPT: usize = 500;

/// An action, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Done {
    /// When it had ended.
    pub at: Timestamp,
    /// Its path.
    pub action: String,
    /// The queues of this host that it concerned.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Who asked.
    pub by: String,
    /// The body, on one line and cut.
    pub request: String,
    /// What it did, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The last actions.
#[derive(Debug, Default)]
pub(crate) struct Audit(Mutex<VecDeque<Done>>);

impl Audit {
    /// Keeps an action. The oldest one is forgotten if there are too many.
    pub(super) fn add(&self, one: Done) {
        let mut done = lock(&self.0);
        if done.len() >= KEPT {
            done.pop_front();
        }
        done.push_back(one);
    }

    /// The last actions, the newest first.
    pub(crate) fn all(&self) -> Vec<Done> {
        lock(&self.0).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_actions_are_kept_and_no_more() {
        let audit = Audit::default();
        let done = |number: usize| Done {
            at: Timestamp(0),
            action: "/v1/wake".to_owned(),
            queues: vec!["orders".to_owned()],
            by: "ana".to_owned(),
            request: number.to_string(),
            result: Some("woken".to_owned()),
            refused: None,
        };
        for number in 0..KEPT + 6 {
            audit.add(done(number));
        }
        let kept = audit.all();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept.first().map(|it| it.request.as_str()), Some("505"));
        assert_eq!(kept.last().map(|it| it.request.as_str()), Some("6"));
    }
}
