//! A run as operators see it.

use backstop_core::failure::Timestamp;
use backstop_dead_letters::redrive::{Counts, Phase, Snapshot};
use serde::{Deserialize, Serialize};

/// A run as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunReport {
    /// Its id.
    pub run: String,
    /// The URL of its dead-letter queue.
    pub queue: String,
    /// The queue of this host whose dead letters it moves, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_queue: Option<String>,
    /// When it started, by the time of SQS.
    pub started: Timestamp,
    /// Who started it.
    pub who: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `running`, `done`, `stopped`, `interrupted`, `failed`, `killed`, `unreadable`, or `running or killed` if nobody can say.
    pub outcome: String,
    /// What it does now, or why it has ended without moving everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Whether this host carries it out.
    pub here: bool,
    /// Whether this host can go on with it.
    pub can_resume: bool,
    /// Where all letters go, if that is one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The steps.
    pub steps: String,
    /// Whether SQS moves the letters itself.
    #[serde(default)]
    pub native: bool,
    /// Letters of the set that could not be received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
    /// Letters that arrived after the start.
    #[serde(default)]
    pub later: u64,
    /// The file with copies of the letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// More about one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub report: RunReport,
    /// Letters that were refused, each with the reason; 100 at most.
    pub refusals: Vec<(String, String)>,
    /// Letters that failed again: the new id, and that of the letter that was moved; 100 at most.
    pub came_back: Vec<(String, String)>,
    /// Letters that may have arrived twice; 100 at most.
    pub uncertain_ids: Vec<String>,
    /// Lines of the journal that can't be read.
    pub damaged_lines: Vec<u64>,
}

/// A run whose files can't be read.
pub(super) fn unreadable(id: &str, why: String) -> RunReport {
    RunReport {
        run: id.to_owned(),
        queue: String::new(),
        of_queue: None,
        started: Timestamp(0),
        who: String::new(),
        why: None,
        outcome: "unreadable".to_owned(),
        text: Some(why),
        ended: None,
        here: false,
        can_resume: false,
        to: None,
        steps: String::new(),
        native: false,
        missing: None,
        later: 0,
        copies: None,
        counts: Counts::default(),
    }
}

/// What a run does, in words.
pub(super) fn doing(now: &Snapshot) -> String {
    match now.phase {
        Phase::Reading => format!("{} letters read, to fix the set", now.read),
        Phase::Moving(step) => format!("step {}: it moves letters", step + 1),
        Phase::Watching(step, left) => format!(
            "step {}: it looks for letters that came back in {} s",
            step + 1,
            left.as_secs()
        ),
        Phase::WaitingForOthers(0) => {
            "it waits in case others hold letters: the queue's numbers may be a minute late"
                .to_owned()
        }
        Phase::WaitingForOthers(held) => {
            format!("it waits for letters that others hold: about {held}")
        }
        Phase::Looking => "it looks for letters that came back".to_owned(),
    }
}
