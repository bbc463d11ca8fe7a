//! Which of the letters that were read are chosen for a run.

use std::collections::HashSet;

use super::RedriveError;
use super::plan::Plan;
use crate::filter::Filters;
use crate::letter::Letter;

/// How many ids of letters without a target are kept.
const SAMPLES: usize = 10;

/// What is in a dead-letter queue, and what a run would do with it.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The ids of the letters that are chosen.
    pub members: HashSet<String>,
    /// The ids of the others.
    pub others: HashSet<String>,
    /// How many of the chosen ones have no target.
    pub without_target: u64,
    /// The ids of the messages that some of them were.
    pub samples: Vec<String>,
    /// How many of the chosen ones do not say how many attempts were made.
    pub unknown_attempts: u64,
    /// The bytes of the chosen ones.
    pub bytes: u64,
}

impl Survey {
    /// Adds a letter. Returns whether it is chosen.
    pub(super) fn add(&mut self, letter: &Letter, filters: &Filters, plan: &Plan) -> bool {
        let id = letter.message.id.clone();
        if !filters.matches(letter) {
            self.others.insert(id);
            return false;
        }
        if plan.target_of(letter).is_none() {
            self.without_target += 1;
            if self.samples.len() < SAMPLES {
                self.samples.push(letter.original_id.clone());
            }
        }
        self.unknown_attempts += u64::from(letter.attempt.is_none());
        self.bytes += u64::try_from(letter.message.size()).unwrap_or(u64::MAX);
        self.members.insert(id);
        true
    }

    /// Why a run can't start: letters have no target. Of a FIFO queue, where nobody sees all letters before, each such letter is refused.
    pub(super) fn error(&self) -> Option<RedriveError> {
        let sample = self.samples.first().cloned().unwrap_or_default();
        let letters = self.without_target;
        (letters > 0).then_some(RedriveError::NoTarget { letters, sample })
    }
}
