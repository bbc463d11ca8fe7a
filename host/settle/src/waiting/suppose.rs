//! What another policy would decide about waiting messages. Nothing is changed.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Waiting;
use super::due::{Due, histogram};
use crate::decision::Action;
use backstop_engine::Policy;

/// How long it is asked.
const LONGEST: Duration = Duration::from_secs(20);

/// What another policy would decide about the messages that wait.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Supposed {
    /// The remembered messages.
    pub waiting: u64,
    /// Messages that would come sooner.
    pub sooner: u64,
    /// Messages that would come at the same time.
    pub same: u64,
    /// Messages that would wait for longer.
    pub later: u64,
    /// Messages that it would have dead-lettered.
    pub dead_letter: u64,
    /// Messages that it would have discarded.
    pub discard: u64,
    /// Messages on which it breaks.
    pub broken: u64,
    /// Messages of which it reads parts of the payload that are not remembered.
    pub not_comparable: u64,
    /// Messages whose failure is not remembered here.
    pub not_remembered: u64,
    /// Messages for which there was no time.
    pub not_reached: u64,
    /// When the messages are due that it would retry, as was decided.
    pub due: Due,
    /// When they would be due.
    pub would_be_due: Due,
}

impl Waiting {
    /// Asks this policy about each message that waits. Blocks.
    pub fn suppose(&self, policy: &Arc<Policy>) -> Supposed {
        let started = Instant::now();
        let (now, today) = (self.now(), self.queue.now());
        let (all, mut result) = {
            let mut memory = self.memory();
            memory.expire(now, usize::MAX);
            let all: Vec<_> = memory.iter().map(|(at, _)| at).collect();
            let result = Supposed {
                waiting: all.len() as u64,
                not_remembered: memory.not_remembered(),
                ..Supposed::default()
            };
            (all, result)
        };
        let (mut dues, mut would) = (Vec::new(), Vec::new());
        for at in all {
            let found = {
                let memory = self.memory();
                let slot = memory.get(at);
                slot.map(|slot| (slot.clone(), memory.packed(slot)))
            };
            // It has become visible meanwhile.
            let Some((slot, packed)) = found else {
                result.waiting -= 1;
                continue;
            };
            let Some(remembered) = self.failure(&packed, slot.attempt) else {
                result.not_remembered += 1;
                continue;
            };
            if started.elapsed() > LONGEST {
                result.not_reached += 1;
                continue;
            }
            let failed_at = remembered.failure.failed_at;
            let decided = self.decider.decide_again(policy, remembered, slot.hold);
            let delay = match decided {
                None => {
                    result.not_comparable += 1;
                    continue;
                }
                Some(Err(_)) => {
                    result.broken += 1;
                    continue;
                }
                Some(Ok(decision)) => match decision.action {
                    Action::DeadLetter { .. } => {
                        result.dead_letter += 1;
                        continue;
                    }
                    Action::Discard { .. } => {
                        result.discard += 1;
                        continue;
                    }
                    Action::Retry { delay } => delay,
                },
            };
            match delay.cmp(&slot.delay) {
                Ordering::Less => result.sooner += 1,
                Ordering::Equal => result.same += 1,
                Ordering::Greater => result.later += 1,
            }
            dues.push(slot.due);
            let due = failed_at.plus(delay.as_duration());
            would.push(self.at(due, now).max(now));
        }
        result.due = histogram(&dues, now, today);
        result.would_be_due = histogram(&would, now, today);
        result
    }
}
