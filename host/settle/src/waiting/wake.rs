//! Makes waiting messages visible sooner, never later.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Waiting;
use super::causes::is_held_back;
use super::filter::{Filter, Matcher, Seen};
use super::memory::{At, Memory, Slot};
use super::packed::Packed;
use super::reach::Reach;
use super::rules::Rule;
use super::spread::spread;
use crate::decision::Hold;
use crate::failure::{Milliseconds, Timestamp};
use crate::queue::{BatchedWakes, ReceiptHandle, SubmitError};
use backstop_records::{LifeEvent, WokenBy};
use backstop_traces::{Kind, Span, Start, Under};

/// A message that is due this soon, in milliseconds, comes by itself. A change of its visibility might meet its next receive.
const SOON: i64 = 3_000;

/// How much sooner a message comes at least if it comes sooner, in milliseconds: less is rounding.
pub(super) const LEAST: i64 = 1_000;

/// How long changes are made and retried for one request.
const WAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The most changes under way at one time: 64 batches of ten.
const AT_ONCE: usize = 640;

/// The most messages that a result names as refused.
const NAMED: usize = 20;

/// Which messages are woken, and over which time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wake {
    /// The messages; all of them if it is empty. Who reads it from outside refuses an empty one.
    pub filter: Filter,
    /// The time over which they come, in milliseconds: zero for at once.
    pub spread: Milliseconds,
    /// Only count.
    pub dry_run: bool,
}

/// What a wake did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Woken {
    /// The messages that match, those that are sent again included.
    pub matched: u64,
    /// Messages that come sooner than they would have.
    pub woken: u64,
    /// Messages that are due as soon anyway, or came meanwhile.
    pub as_soon: u64,
    /// Messages whose visibility SQS did not change. They come when they are due.
    pub refused: u64,
    /// Some of the refused messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// Messages for which there was no time. Another request goes on with them.
    pub not_reached: u64,
    /// Messages that are held by being sent again, and will be woken when their hop ends.
    pub resent: u64,
    /// When the last of those is woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent_until: Option<Timestamp>,
    /// When the last message comes whose visibility was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// When they were counted. With `failed-until` of this time, a filter matches no message that failed later.
    #[serde(default)]
    pub as_of: Timestamp,
    /// Messages that wait and that this host does not remember because there are too many. They are not woken.
    pub not_remembered: u64,
    /// How many of the invisible messages the host knows: no wake reaches the others.
    #[serde(flatten)]
    pub reach: Reach,
}

/// A message whose visibility was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Refusal {
    /// Its id.
    pub id: String,
    /// Why.
    pub error: String,
}

/// The messages that are held back, and those that were brought back now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BroughtBack {
    /// Those that were brought back.
    pub messages: u64,
    /// By their codes.
    pub codes: HashMap<String, OfCode>,
}

/// The messages with one code that are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfCode {
    /// Those that were held back.
    pub held: usize,
    /// Those of them that are brought back.
    pub brought: usize,
}

/// How one message fared.
pub(super) enum Hurried {
    Done { ends: i64 },
    AsSoon,
    NotReached,
    Refused(Refusal),
}

/// What is to be changed: messages and their new times.
pub(super) type Changes = Vec<(At, i64)>;

/// Who changes them, with the policy that decided again; `None` if that is not recorded.
pub(super) type Hurrier<'a> = Option<(WokenBy, Option<&'a str>)>;

impl Waiting {
    /// Makes the messages that match visible sooner, spread over a time. Those that are sent again are woken when their hop ends; this holds for all messages that failed so far, whichever host sent them.
    pub async fn wake(&self, wake: &Wake) -> Woken {
        let reach = self.reach().await;
        let (changes, mut woken) = self.plan(wake);
        woken.reach = reach;
        if !wake.dry_run {
            self.hurry(changes, &mut woken, Some((WokenBy::Wake, None)))
                .await;
            self.woken.wake.increment(woken.woken + woken.resent);
        }
        woken
    }

    /// Brings messages back that were [held back](Waiting::held_back): of each code at most as many as `allot` gives it for the numbers of all, those that were held back first. They are spread over the time that `over` says for their number.
    pub async fn bring_back(
        &self,
        allot: impl FnOnce(&HashMap<String, usize>) -> HashMap<String, usize>,
        over: impl FnOnce(u64) -> Duration,
    ) -> BroughtBack {
        let now = self.now();
        let mut held = HashMap::<String, usize>::new();
        let mut found = Vec::new();
        let brought = {
            let mut memory = self.memory();
            memory.expire(now, usize::MAX);
            let causes = |slot| Some(memory.cause(slot)).filter(is_held_back);
            for code in memory
                .iter()
                .filter_map(|(_, slot)| Some(causes(slot)?.code))
            {
                match held.get_mut(code) {
                    Some(count) => *count += 1,
                    None => drop(held.insert(code.to_owned(), 1)),
                }
            }
            let allotted = allot(&held);
            for (place, slot) in memory.iter() {
                let code = causes(slot).map(|cause| cause.code);
                if let Some((code, _)) = code.and_then(|code| allotted.get_key_value(code)) {
                    found.push((place, slot.ends, code.clone()));
                }
            }
            found.sort_by_key(|(_, ends, _)| *ends);
            let mut brought = HashMap::<String, usize>::new();
            found.retain(|(_, _, code)| {
                let most = allotted.get(code).copied().unwrap_or_default();
                let count = brought.entry(code.clone()).or_default();
                let is_brought = *count < most;
                *count += usize::from(is_brought);
                is_brought
            });
            brought
        };
        let over = over(u64::try_from(found.len()).unwrap_or(u64::MAX));
        let times = spread(found.iter().map(|(_, ends, _)| *ends), now, over);
        let sooner = found.iter().zip(times);
        let sooner = sooner.filter(|((_, ends, _), time)| is_sooner(*ends, *time, now));
        let changes = sooner.map(|((place, ..), time)| (*place, time)).collect();
        let mut woken = Woken::default();
        self.hurry(changes, &mut woken, None).await;
        self.woken.brought_back.increment(woken.woken);
        BroughtBack {
            messages: woken.woken,
            codes: held
                .into_iter()
                .map(|(code, held)| {
                    let brought = brought.get(&code).copied().unwrap_or_default();
                    (code, OfCode { held, brought })
                })
                .collect(),
        }
    }

    fn plan(&self, wake: &Wake) -> (Changes, Woken) {
        let (now, at) = (self.now(), self.queue.now());
        let rule = Rule {
            matcher: Matcher::of(&wake.filter),
            at,
            spread: wake.spread,
        };
        if !wake.dry_run && !self.fifo {
            self.rules().add(rule.clone(), self.longest_hop);
        }
        let mut memory = self.memory();
        memory.expire(now, usize::MAX);
        let mut woken = Woken {
            as_of: at,
            not_remembered: memory.not_remembered(),
            ..Woken::default()
        };
        let (mut changed, mut resent) = (Vec::new(), Vec::new());
        for (place, slot) in memory.iter() {
            let seen = self.seen(&memory, slot, |time| since(at, time - now));
            if !rule.matcher.matches(seen) || !rule.matcher.names(|| id(&memory, slot)) {
                continue;
            }
            woken.matched += 1;
            match slot.hold {
                Hold::Visibility => changed.push((place, slot.ends)),
                Hold::Resend => {
                    let wakes = self.at(rule.time(&id(&memory, slot)), now).max(slot.ends);
                    if wakes < slot.due {
                        resent.push((place, wakes))
                    } else {
                        woken.as_soon += 1
                    }
                }
            }
        }
        woken.resent = resent.len() as u64;
        let until = resent.iter().map(|(_, wakes)| *wakes).max();
        woken.resent_until = until.map(|until| self.timestamp(until, now));
        let dues: Vec<_> = changed.iter().map(|(_, due)| *due).collect();
        let times = spread(dues.into_iter(), now, wake.spread.as_duration());
        let mut changes = Vec::new();
        for ((place, due), time) in changed.into_iter().zip(times) {
            if is_sooner(due, time, now) {
                changes.push((place, time))
            } else {
                woken.as_soon += 1
            }
        }
        if wake.dry_run {
            woken.woken = changes.len() as u64;
            let last = changes.iter().map(|(_, time)| *time).max();
            woken.last = last.map(|last| self.timestamp(last, now));
        } else {
            for (place, wakes) in resent {
                memory.set_due(place, wakes);
            }
        }
        (changes, woken)
    }

    /// What a filter can go by. All messages have to be seen at the same time of day: a filter compares their times with one.
    pub(super) fn seen<'a>(
        &self,
        memory: &'a Memory,
        slot: &Slot,
        time: impl Fn(i64) -> Timestamp,
    ) -> Seen<'a> {
        let cause = memory.cause(slot);
        Seen {
            code: cause.code,
            class: cause.class,
            attempt: slot.attempt,
            due: time(slot.due),
            failed: time(slot.failed),
            group: cause.group,
        }
    }

    /// Changes the visibility of messages, in batches, several at a time, in a span that says what they come sooner for. What is recorded of that says who did it, with the policy that decided again.
    pub(super) async fn hurry(&self, changes: Changes, woken: &mut Woken, by: Hurrier<'_>) {
        let span = if changes.is_empty() && woken.resent == 0 {
            Span::none()
        } else {
            Span::start(|| Start::new(Kind::Wake, &self.place, Under::Nothing))
        };
        self.change(changes, woken, by).await;
        span.record(|attributes| {
            let by = match by {
                Some((WokenBy::Reconsideration, _)) => "reconsideration",
                Some(_) => "wake",
                None => "brought-back",
            };
            attributes.text("backstop.wake.by", by);
            attributes.number("messaging.batch.message_count", woken.woken);
            attributes.number("backstop.wake.at_hop", woken.resent);
            attributes.number("backstop.wake.refused", woken.refused);
        });
        span.end();
    }

    async fn change(&self, changes: Changes, woken: &mut Woken, by: Hurrier<'_>) {
        if changes.is_empty() {
            return;
        }
        // A request that is late must not undo an earlier time of another wake.
        let _turn = self.turn.lock().await;
        let wakes = BatchedWakes::start(&self.queue, &self.requests);
        let until = Instant::now() + WAKE_TIMEOUT;
        let wakes = &wakes;
        let hurried = stream::iter(changes)
            .map(|(at, time)| self.hurry_one(at, time, wakes, (until, by)))
            .buffer_unordered(AT_ONCE);
        let mut hurried = std::pin::pin!(hurried);
        let mut last = None;
        while let Some(hurried) = hurried.next().await {
            match hurried {
                Hurried::Done { ends } => {
                    woken.woken += 1;
                    last = last.max(Some(ends));
                }
                Hurried::AsSoon => woken.as_soon += 1,
                Hurried::NotReached => woken.not_reached += 1,
                Hurried::Refused(refusal) => {
                    woken.refused += 1;
                    if woken.refusals.len() < NAMED {
                        woken.refusals.push(refusal);
                    }
                }
            }
        }
        woken.last = last.map(|last| self.timestamp(last, self.now()));
    }

    async fn hurry_one(
        &self,
        at: At,
        time: i64,
        wakes: &BatchedWakes,
        (until, by): (Instant, Hurrier<'_>),
    ) -> Hurried {
        let Some((id, handle, ends)) = self.handle(at) else {
            return Hurried::AsSoon;
        };
        let now = self.now();
        if !is_sooner(ends, time, now) {
            return Hurried::AsSoon;
        }
        let was_due = self.timestamp(ends, now);
        if Instant::now() >= until {
            return Hurried::NotReached;
        }
        // Later, the message may have been received again.
        let until = until.min(self.instant(ends - SOON));
        let visible = self.instant(time);
        match wakes.make_visible_at(handle, visible, until).await {
            Ok(()) => {
                let now = self.now();
                let ends = time.max(now);
                self.memory().set_end(at, ends);
                if let Some((by, policy)) = by {
                    let times = (was_due, self.timestamp(ends, now));
                    self.note_woken(&id, times, by, policy);
                }
                Hurried::Done { ends }
            }
            Err(error) => {
                if matches!(&error, SubmitError::Entry(error) if !error.retryable) {
                    self.memory().forget_at(at);
                }
                let error = error.to_string();
                Hurried::Refused(Refusal { id, error })
            }
        }
    }

    fn note_woken(
        &self,
        id: &str,
        (was_due, due): (Timestamp, Timestamp),
        by: WokenBy,
        policy: Option<&str>,
    ) {
        let events = self.decider.events();
        events.happened_to(id, || LifeEvent::Woken {
            by,
            due,
            was_due,
            policy: policy.map(str::to_owned),
        });
    }

    fn handle(&self, at: At) -> Option<(String, ReceiptHandle, i64)> {
        let memory = self.memory();
        let slot = memory.get(at)?;
        let packed = memory.packed(slot);
        let packed = Packed::read(&packed)?;
        Some((
            packed.id(),
            ReceiptHandle(packed.handle()?.into()),
            slot.ends,
        ))
    }

    fn instant(&self, at: i64) -> Instant {
        self.started + Duration::from_millis(u64::try_from(at).unwrap_or_default())
    }
}

/// Whether a message that is visible at `ends` can be made visible earlier, at `time`. Timeouts are whole seconds.
pub(super) fn is_sooner(ends: i64, time: i64, now: i64) -> bool {
    ends - now > SOON && ends - time >= LEAST
}

/// The time of day that is this much later than another one, in milliseconds.
pub(super) fn since(today: Timestamp, later: i64) -> Timestamp {
    Timestamp(today.0.saturating_add_signed(later))
}

/// The id of a remembered message.
pub(super) fn id(memory: &Memory, slot: &Slot) -> String {
    Packed::read(&memory.packed(slot)).map_or_else(String::new, |packed| packed.id())
}
