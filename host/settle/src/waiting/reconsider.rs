//! Decides about waiting messages again, with the version of the policy that is active now. Decisions are pure, so this is the decision that the version would have made at the failure.

use std::cmp::Ordering;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use backstop_core::lock::lock;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Waiting;
use super::earlier::EarlierTime;
use super::memory::{Known, Slot};
use super::packed::Packed;
use super::sooner::{SoonerRetry, sooner};
use super::wake::{Refusal, Woken, id, since};
use crate::decision::{Action, Decision, Hold};
use crate::failure::{Milliseconds, Timestamp};
use backstop_decider::RememberedFailure;
use backstop_engine::Policy;
use backstop_records::WokenBy;

/// How long decisions are made for one request.
const LONGEST: Duration = Duration::from_secs(20);

/// The most earlier times that a result lists for other hosts.
const LISTED: usize = 20_000;

/// Whether and how waiting messages are decided about again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Reconsider {
    /// The time over which messages come that are overdue by the new decision, in milliseconds: zero for at once.
    pub spread: Milliseconds,
    /// Only count.
    pub dry_run: bool,
    /// List the new times of messages that are sent again, for other hosts.
    pub list: bool,
    /// Only messages that had failed by this time: those that a preview has counted, and none that came later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_until: Option<Timestamp>,
    /// The digests of the version that has to be active: the one that a preview was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digests: Option<Vec<String>>,
}

/// Another version is active than the one that was meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing was done: {active} is active, and not the version with these digests")]
pub struct OtherVersion {
    /// The active one, for people.
    pub active: String,
}

/// What a reconsideration did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reconsidered {
    /// The version that decided.
    pub policy: String,
    /// The digests of its components.
    #[serde(default)]
    pub digests: Vec<String>,
    /// When the messages were counted. With `failed-until` of this time, no message is decided about that failed later.
    #[serde(default)]
    pub as_of: Timestamp,
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
    /// Messages that are held by being sent again and come sooner, when their hop ends or after that.
    pub resent: u64,
    /// When the last of those comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent_until: Option<Timestamp>,
    /// Messages that are held by being sent again and that another host has seen fail, or this one before its start.
    pub elsewhere: u64,
    /// The new times of messages that are sent again, if they are to be listed: also of those that another host has sent again since they failed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierTime>,
    /// Those that are not listed because there are too many.
    #[serde(default)]
    pub unlisted: u64,
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
    /// The failure is too large to be remembered, or another host has seen it.
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

impl Waiting {
    /// Decides about the waiting messages again, and makes those visible sooner for which the active version says so. Those that are sent again come when their hop ends, or later if they are not due then.
    pub async fn reconsider(
        self: &Arc<Self>,
        reconsider: &Reconsider,
    ) -> Result<Reconsidered, OtherVersion> {
        let dry_run = reconsider.dry_run;
        let (this, asked) = (Arc::clone(self), reconsider.clone());
        let deciding = tokio::task::spawn_blocking(move || this.decide_again(&asked));
        let (retries, number, mut result) = match deciding.await {
            Ok(decided) => decided?,
            Err(panic) => {
                tracing::error!(%panic, queue = self.name, "waiting messages could not be reconsidered");
                return Ok(Reconsidered::default());
            }
        };
        let sooner = sooner(&retries, self.now(), reconsider.spread.as_duration());
        let waiting = retries.iter().filter(|it| it.waits).count();
        let come_sooner = sooner.iter().filter(|(it, _)| it.waits).count();
        result.same += (waiting - come_sooner) as u64;
        let not_kept = self.come_at_hop(&sooner, reconsider, &mut result);
        let changes = sooner.iter().filter(|(it, _)| it.hold == Hold::Visibility);
        let changes: Vec<_> = changes.map(|(it, time)| (it.at, *time)).collect();
        if dry_run {
            result.hurried = changes.len() as u64;
            return Ok(result);
        }
        let mut woken = Woken::default();
        let by = (WokenBy::Reconsideration, Some(result.policy.as_str()));
        self.hurry(changes, &mut woken, Some(by)).await;
        let not_reached = woken.not_reached + not_kept;
        if not_reached == 0 {
            let mut memory = self.memory();
            for retry in &retries {
                memory.set_reconsidered(retry.at, number);
            }
        }
        result.not_reached += not_reached;
        result.hurried = woken.woken;
        let sooner = result.hurried + result.resent;
        self.woken.reconsideration.increment(sooner);
        result.same += woken.as_soon;
        (result.refused, result.refusals) = (woken.refused, woken.refusals);
        result.last = woken.last;
        Ok(result)
    }

    /// Keeps the new times of messages with an envelope until they arrive. Counts those that are sent again, and lists their times for other hosts. Returns for how many there was no room.
    fn come_at_hop(
        &self,
        sooner: &[(&SoonerRetry, i64)],
        Reconsider { dry_run, list, .. }: &Reconsider,
        result: &mut Reconsidered,
    ) -> u64 {
        let (now, today) = (self.now(), self.queue.now());
        let (mut not_kept, mut until) = (0, None);
        // A message that arrives meanwhile waits for its time.
        let mut memory = self.memory();
        let mut times = self.earlier_times(today);
        for (retry, time) in sooner.iter().filter(|(it, _)| it.by_envelope) {
            let is_resent = retry.hold == Hold::Resend;
            let Some(slot) = memory.get(retry.at) else {
                result.same += u64::from(retry.waits && is_resent);
                continue;
            };
            let is_here = !slot.hop_ended && slot.ends > now;
            let comes = if is_here { slot.ends.max(*time) } else { *time };
            let wanted = retry.failed_at.plus(retry.delay.as_duration());
            let earlier = EarlierTime {
                id: id(&memory, slot),
                failed_at: retry.failed_at,
                due: self.timestamp(*time, now).max(wanted),
            };
            if !dry_run {
                let key = self.key_of_failure(&earlier.id, earlier.failed_at);
                if !times.add(key, earlier.due, today, self.longest_hop) {
                    not_kept += 1;
                    continue;
                }
            }
            if !is_resent {
                continue;
            }
            if !dry_run {
                memory.set_due(retry.at, comes);
            }
            match (is_here, retry.waits) {
                (true, _) => {
                    result.resent += 1;
                    until = until.max(Some(comes));
                }
                // Its hop has ended meanwhile.
                (false, waits) => result.same += u64::from(waits),
            }
            match (list, result.earlier.len() < LISTED) {
                (true, true) => result.earlier.push(earlier),
                (true, false) => result.unlisted += 1,
                (false, _) => {}
            }
        }
        result.resent_until = until.map(|until| self.timestamp(until, now));
        not_kept
    }

    /// The new decisions that are retries at an earlier time, the number of the version, and the counts of all others.
    fn decide_again(
        &self,
        Reconsider {
            dry_run,
            failed_until,
            digests,
            ..
        }: &Reconsider,
    ) -> Result<(Vec<SoonerRetry>, u32, Reconsidered), OtherVersion> {
        let started = Instant::now();
        let policy = self.decider.policy().current();
        let active: Vec<_> = policy.digests().iter().map(ToString::to_string).collect();
        if digests.as_ref().is_some_and(|meant| *meant != active) {
            return Err(OtherVersion {
                active: policy.title(),
            });
        }
        let number = {
            let mut versions = lock(&self.versions);
            versions.number(&policy)
        };
        let (all, ended, mut result) = {
            let (now, today) = (self.now(), self.queue.now());
            let mut memory = self.memory();
            memory.expire(now, usize::MAX);
            // All at the same time of day: a preview has one time for all.
            let is_meant = |slot: &Slot| {
                let failed = since(today, slot.failed - now);
                failed_until.is_none_or(|until| failed <= until)
            };
            let meant = memory.iter().filter(|(_, slot)| is_meant(slot));
            let all: Vec<_> = meant.map(|(at, _)| at).collect();
            let ended = memory.ended_hops().filter(|(_, slot)| is_meant(slot));
            let ended: Vec<_> = ended.map(|(at, _)| at).collect();
            let result = Reconsidered {
                policy: policy.title(),
                digests: active,
                as_of: today,
                waiting: all.len() as u64,
                not_remembered: memory.not_remembered(),
                ..Reconsidered::default()
            };
            (all, ended, result)
        };
        let mut retries = Vec::new();
        // Only the host that has sent them again counts those whose hop has ended here.
        let mut uncounted = Reconsidered::default();
        let all = all.into_iter().map(|at| (at, true));
        let ended = ended.into_iter().map(|at| (at, false));
        for (at, counts) in all.chain(ended) {
            let result = if counts { &mut result } else { &mut uncounted };
            let found = {
                let memory = self.memory();
                let slot = memory.get(at);
                slot.map(|slot| (slot.clone(), memory.packed(slot)))
            };
            let Some((slot, packed)) = found else {
                // It has become visible meanwhile.
                result.same += 1;
                continue;
            };
            if slot.reconsidered == number {
                result.before += 1;
                continue;
            }
            let Some(remembered) = self.failure(&packed, slot.attempt) else {
                match slot.known {
                    Known::Elsewhere => result.elsewhere += 1,
                    Known::Here | Known::TooLarge => result.too_large += 1,
                }
                continue;
            };
            if started.elapsed() > LONGEST {
                result.not_reached += 1;
                continue;
            }
            let failed_at = remembered.failure.failed_at;
            match self.decider.decide_again(&policy, remembered, slot.hold) {
                None => result.not_comparable += 1,
                Some(Err(_)) => result.broken += 1,
                Some(Ok(decision)) => match decision.action {
                    Action::DeadLetter { .. } => result.dead_letter += 1,
                    Action::Discard { .. } => result.discard += 1,
                    Action::Retry { delay } => match delay.cmp(&slot.delay) {
                        Ordering::Equal => result.same += 1,
                        Ordering::Greater => result.later += 1,
                        Ordering::Less => {
                            retries.push(SoonerRetry::of(at, &slot, failed_at, delay));
                            // Once its time is changed.
                            continue;
                        }
                    },
                },
            }
            if !dry_run {
                self.memory().set_reconsidered(at, number);
            }
        }
        result.not_reached += uncounted.not_reached;
        Ok((retries, number, result))
    }

    /// What the active version would decide about a remembered message.
    pub(super) fn today(&self, slot: &Slot, packed: &[u8]) -> Today {
        let Some(remembered) = self.failure(packed, slot.attempt) else {
            return Today::NotRemembered;
        };
        let policy = self.decider.policy().current();
        match self.decider.decide_again(&policy, remembered, slot.hold) {
            None => Today::NotComparable,
            Some(Ok(decision) | Err(decision)) => Today::Decision(decision),
        }
    }

    pub(super) fn failure(&self, packed: &[u8], attempt: u32) -> Option<RememberedFailure> {
        let attempt = NonZeroU32::new(attempt)?;
        Packed::read(packed)?.failure(&self.source, attempt)
    }
}
