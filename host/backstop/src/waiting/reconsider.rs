//! Decides about waiting messages again, with the version of the policy that is active now. Decisions are pure, so this is the decision that the version would have made at the failure.

use std::cmp::Ordering;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Waiting;
use super::memory::At;
use super::packed::{Packed, RememberedFailure};
use super::spread::spread;
use super::wake::{Refusal, Woken, is_sooner};
use crate::decision::{Action, Decision, Hold};
use crate::failure::{Milliseconds, Timestamp};
use crate::policy::Policy;

/// How long decisions are made for one request.
const LONGEST: Duration = Duration::from_secs(20);

/// Whether and how waiting messages are decided about again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Reconsider {
    /// The time over which messages come that are overdue by the new decision, in milliseconds: zero for at once.
    pub spread: Milliseconds,
    /// Only count.
    pub dry_run: bool,
}

/// What a reconsideration did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reconsidered {
    /// The version that decided.
    pub policy: String,
    /// The remembered messages.
    pub waiting: u64,
    /// Messages that come sooner.
    pub hurried: u64,
    /// Messages for which the new decision is the same, and messages that come as soon anyway.
    pub same: u64,
    /// Messages that the version would let wait for longer. They keep their time.
    pub later: u64,
    /// Messages that the version would dead-letter. They keep their time.
    pub dead_letter: u64,
    /// Messages that the version would discard. They keep their time.
    pub discard: u64,
    /// Messages on which the version breaks. They keep their time.
    pub broken: u64,
    /// Messages of which the version reads other parts of the payload than the one that decided.
    pub not_comparable: u64,
    /// Messages whose failure is too large to be remembered.
    pub too_large: u64,
    /// Messages that are held by being sent again: their visibility can't be changed.
    pub resent: u64,
    /// Messages about which this version has decided again before.
    pub before: u64,
    /// Messages for which there was no time. The next request goes on with them.
    pub not_reached: u64,
    /// Messages whose visibility SQS did not change. They come when they are due.
    pub refused: u64,
    /// Some of the refused messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// When the last message comes whose visibility was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Messages that wait and that this host does not remember because there are too many.
    pub not_remembered: u64,
}

/// What the active version would decide about a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Today {
    /// This.
    Decision(Decision),
    /// It reads parts of the payload that are not remembered.
    NotComparable,
    /// The failure is too large to be remembered, or another host has it.
    NotRemembered,
}

/// Numbers the versions that have decided again.
#[derive(Debug, Default)]
pub(super) struct Versions {
    last: Weak<Policy>,
    number: u32,
}

impl Versions {
    fn number(&mut self, policy: &Arc<Policy>) -> u32 {
        if !std::ptr::eq(self.last.as_ptr(), Arc::as_ptr(policy)) {
            self.last = Arc::downgrade(policy);
            self.number += 1;
        }
        self.number
    }
}

/// A new decision on a waiting message: retry at this time.
struct Retry {
    at: At,
    ends: i64,
    time: i64,
}

impl Waiting {
    /// Decides about the waiting messages again, and makes those visible sooner for which the active version says so.
    pub async fn reconsider(self: &Arc<Self>, reconsider: &Reconsider) -> Reconsidered {
        let (this, dry_run) = (Arc::clone(self), reconsider.dry_run);
        let deciding = tokio::task::spawn_blocking(move || this.decide_again(dry_run));
        let (retries, number, mut result) = match deciding.await {
            Ok(decided) => decided,
            Err(panic) => {
                tracing::error!(%panic, queue = self.name, "waiting messages could not be reconsidered");
                return Reconsidered::default();
            }
        };
        let changes = hurried(&retries, self.now(), reconsider.spread.as_duration());
        result.same += (retries.len() - changes.len()) as u64;
        if reconsider.dry_run {
            result.hurried = changes.len() as u64;
            return result;
        }
        let mut woken = Woken::default();
        self.hurry(changes, &mut woken).await;
        if woken.not_reached == 0 {
            let mut memory = self.memory();
            for retry in &retries {
                memory.set_reconsidered(retry.at, number);
            }
        }
        let Woken {
            woken,
            as_soon,
            refused,
            refusals,
            not_reached,
            last,
            ..
        } = woken;
        result.hurried = woken;
        result.same += as_soon;
        result.not_reached += not_reached;
        (result.refused, result.refusals, result.last) = (refused, refusals, last);
        result
    }

    /// The new decisions that are retries at an earlier time, the number of the version, and the counts of all others.
    fn decide_again(&self, dry_run: bool) -> (Vec<Retry>, u32, Reconsidered) {
        let started = Instant::now();
        let policy = self.decider.policy().current();
        let number = {
            let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions.number(&policy)
        };
        let (all, mut result) = {
            let mut memory = self.memory();
            memory.expire(self.now(), usize::MAX);
            let all: Vec<_> = memory.iter().map(|(at, _)| at).collect();
            let result = Reconsidered {
                policy: policy.title(),
                waiting: all.len() as u64,
                not_remembered: memory.not_remembered(),
                ..Reconsidered::default()
            };
            (all, result)
        };
        let mut retries = Vec::new();
        for at in all {
            let (remembered, slot) = {
                let memory = self.memory();
                // It has become visible meanwhile.
                let Some(slot) = memory.get(at) else {
                    result.same += 1;
                    continue;
                };
                (self.failure(&slot.packed, slot.attempt), slot.clone())
            };
            if slot.reconsidered == number {
                result.before += 1;
                continue;
            }
            if slot.hold == Hold::Resend {
                result.resent += 1;
                continue;
            }
            let Some(remembered) = remembered else {
                result.too_large += 1;
                continue;
            };
            if started.elapsed() > LONGEST {
                result.not_reached += 1;
                continue;
            }
            match self.decider.decide_again(&policy, remembered) {
                None => result.not_comparable += 1,
                Some(Err(_)) => result.broken += 1,
                Some(Ok(decision)) => match decision.action {
                    Action::DeadLetter { .. } => result.dead_letter += 1,
                    Action::Discard { .. } => result.discard += 1,
                    Action::Retry { delay } => match delay.cmp(&slot.delay) {
                        Ordering::Equal => result.same += 1,
                        Ordering::Greater => result.later += 1,
                        Ordering::Less => {
                            // No delay is shorter than decided: timeouts are cut to whole seconds.
                            let time = slot.failed + i64::from(delay.0) + 999;
                            retries.push(Retry {
                                at,
                                ends: slot.ends,
                                time,
                            });
                            // Once its visibility is changed.
                            continue;
                        }
                    },
                },
            }
            if !dry_run {
                self.memory().set_reconsidered(at, number);
            }
        }
        (retries, number, result)
    }

    /// What the active version would decide about a remembered message.
    pub(super) fn today(&self, packed: &[u8], attempt: u32) -> Today {
        let Some(remembered) = self.failure(packed, attempt) else {
            return Today::NotRemembered;
        };
        let policy = self.decider.policy().current();
        match self.decider.decide_again(&policy, remembered) {
            None => Today::NotComparable,
            Some(Ok(decision) | Err(decision)) => Today::Decision(decision),
        }
    }

    pub(super) fn failure(&self, packed: &[u8], attempt: u32) -> Option<RememberedFailure> {
        let attempt = NonZeroU32::new(attempt)?;
        Packed::read(packed)?.failure(&self.source, attempt)
    }
}

/// The messages that come sooner, and when: at the time of the new decision, or spread from now on if that is over.
fn hurried(retries: &[Retry], now: i64, over: Duration) -> Vec<(At, i64)> {
    let overdue: Vec<_> = retries.iter().filter(|it| it.time <= now).collect();
    let ends: Vec<_> = overdue.iter().map(|it| it.ends).collect();
    let spread = spread(ends.into_iter(), now, over);
    let overdue = overdue.into_iter().zip(spread);
    let future = retries.iter().filter(|it| it.time > now);
    let future = future.map(|it| (it, it.time.min(it.ends)));
    overdue
        .chain(future)
        .filter(|(it, time)| is_sooner(it.ends, *time, now))
        .map(|(it, time)| (it.at, time))
        .collect()
}
