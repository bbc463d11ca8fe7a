//! What a policy would do with dead letters.

use std::sync::Arc;

use backstop_core::decision::{Action, Bounds, DecidedBy, Decision, FallbackCause, Reach, decide};
use backstop_core::failure::{Error, Milliseconds};
use backstop_dead_letters::{Attempts, Letter, rebuild};
use backstop_engine::{Payload, Policy};
use serde::{Deserialize, Serialize};

/// A policy, and what it is asked about.
#[derive(Debug, Clone)]
pub struct Classifier {
    /// The policy.
    pub policy: Policy,
    /// The bounds of its queue.
    pub bounds: Bounds,
    /// Which attempt it is asked about.
    pub attempts: Attempts,
    /// The error of letters that do not say theirs.
    pub assumed: Option<Error>,
}

/// A letter, and what the policy answers.
#[derive(Debug)]
pub struct Classified {
    /// The letter.
    pub letter: Letter,
    /// What the letter does not say, and what is assumed of it.
    pub unknown: Vec<&'static str>,
    /// `None` if nobody knows the error.
    pub decision: Option<Decision>,
}

backstop_core::names! {
    /// What would become of a letter. In the order of their names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// The policy breaks on it.
        Broken = "broken",
        /// It would die again.
        DeadLetter = "dead-letter",
        /// It would be discarded.
        Discard = "discard",
        /// Nobody has recorded its error.
        #[serde(rename = "not classified")]
        NotClassified = "not classified",
        /// The policy would retry it.
        Retry = "retry",
    }
}

/// An answer in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Would {
    /// What would become of the letter.
    pub verdict: Verdict,
    /// The class of its error.
    pub class: String,
    /// Why, if it is not retried.
    pub reason: String,
    /// After which delay, if it is retried.
    pub delay: Option<Milliseconds>,
}

impl Classifier {
    /// Asks the policy. Blocks as long as the policy computes.
    pub fn classify(&self, letter: Letter) -> Classified {
        let Some(rebuilt) = rebuild(&letter, self.attempts, self.assumed.as_ref()) else {
            return Classified {
                letter,
                unknown: Vec::new(),
                decision: None,
            };
        };
        let failure = rebuilt.failure;
        let body = letter
            .event()
            .map_or_else(|| Arc::clone(&letter.message.body), Arc::from);
        let evaluation = self
            .policy
            .evaluate(&failure, &Arc::new(Payload::new(body)));
        let answer = evaluation
            .answer
            .map_err(|error| -> FallbackCause { error.cause() });
        let reach = Reach::visibility(Milliseconds(u32::MAX), failure.age);
        Classified {
            decision: Some(decide(&failure, answer, &self.bounds, reach)),
            letter,
            unknown: rebuilt.unknown,
        }
    }
}

impl Classified {
    /// The answer in a few words.
    pub fn would(&self) -> Would {
        let Some(decision) = &self.decision else {
            let origin = self.letter.origin;
            return Would {
                verdict: Verdict::NotClassified,
                class: String::new(),
                reason: format!("nobody has recorded its error (origin {origin})"),
                delay: None,
            };
        };
        let (verdict, reason, delay) = match (&decision.decided_by, &decision.action) {
            (DecidedBy::Fallback(cause), _) => (Verdict::Broken, cause.text.clone(), None),
            (_, Action::Retry { delay }) => (Verdict::Retry, String::new(), Some(*delay)),
            (_, Action::DeadLetter { reason }) => (Verdict::DeadLetter, reason.clone(), None),
            (_, Action::Discard { reason }) => (Verdict::Discard, reason.clone(), None),
        };
        Would {
            verdict,
            class: decision.class.to_string(),
            reason,
            delay,
        }
    }
}
