//! Limits for the messages of each key: how many attempts begin in a time, and how many are made at once.
//!
//! A message whose key is at a limit waits in memory if it has its turn soon. All others are held back: they are made invisible without an attempt, and brought back as their turns come (`held_back`). So a key with many messages takes no more than its share of those in flight.

mod key;

use std::collections::HashMap;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_core::rate::Rate;
use futures_util::future::Either;
use metrics::Counter;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::super::budget::Budget;
use super::super::not_now::{HeldBack, NotNow};
use super::serving::{EachServing, LimitedKey};
use crate::config::{EachOptions, InCommon};
use crate::queue::Message;
use crate::telemetry;
use crate::waiting::OfCode;
use key::Key;

pub(super) use key::Limits;

/// The most keys that are limited at the same time.
const MOST_KEYS: usize = 10_000;

/// The least number of keys at which idle ones are looked for.
const SWEEP_AT: usize = 1_000;

/// The shortest time after which idle keys are looked for again while there are as many as can be.
const SWEPT: Duration = Duration::from_millis(100);

/// The most messages of a queue that are held back: as many are known after a restart as not attempted, and SQS allows 120,000 in flight.
const MOST_HELD: usize = 20_000;

/// The longest time for which a message is held back at once: another host may be the next to receive it.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The most keys that a report names.
const NAMED: usize = 20;

/// The limits for each key of one queue.
pub(crate) struct Each {
    queue: String,
    by: Option<InCommon>,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// A key has its turn.
    free: Notify,
    held_back: Counter,
}

struct State {
    limits: Limits,
    keys: HashMap<String, Key>,
    /// The number of keys at which idle ones are looked for.
    sweep_at: usize,
    /// When they were looked for last.
    swept: Instant,
    /// Messages in memory whose attempts have not begun.
    in_memory: usize,
    /// Messages that are held back, as they were counted last.
    held: usize,
    has_said_too_many: bool,
}

/// Whether a message is attempted.
pub(in crate::consumer) enum Entry {
    /// Now. The turn is over when it is dropped; without limits there is none.
    Begins(Option<Turn>),
    HeldBack(HeldBack),
    /// Something else came up while it waited.
    Interrupted,
}

/// The turn of a message: one of the attempts of its key.
pub(in crate::consumer) struct Turn {
    each: Arc<Each>,
    key: String,
    at: Instant,
    has_begun: bool,
}

/// What a key says to a message.
enum Asked {
    Turn(Turn),
    Wait(oneshot::Receiver<Turn>),
    HeldBack(Duration),
    Unlimited,
}

impl Each {
    /// The limits of the queue with this name. Without options there are none.
    pub(super) fn new(
        queue: &str,
        budget: &Arc<Budget>,
        options: Option<&EachOptions>,
    ) -> Arc<Self> {
        let limits = Limits {
            rate: options.and_then(|it| it.rate),
            max_in_flight: options.and_then(|it| it.max_in_flight),
        };
        Arc::new(Self {
            queue: queue.to_owned(),
            by: options.map(|options| options.by.clone()),
            budget: Arc::clone(budget),
            state: Mutex::new(State {
                limits,
                keys: HashMap::new(),
                sweep_at: SWEEP_AT,
                swept: Instant::now(),
                in_memory: 0,
                held: 0,
                has_said_too_many: false,
            }),
            free: Notify::new(),
            held_back: telemetry::Queue::named(queue).held_back(),
        })
    }

    /// Whether messages have limits by a key.
    pub(in crate::consumer) fn is_set(&self) -> bool {
        self.by.is_some()
    }

    /// Changes the limits. Returns those that there are now.
    pub(super) fn set(self: &Arc<Self>, change: impl FnOnce(&mut Limits)) -> Limits {
        let now = Instant::now();
        let mut state = self.state();
        change(&mut state.limits);
        let limits = state.limits;
        state.keys.values_mut().for_each(|key| key.set(limits, now));
        let names: Vec<_> = state.keys.keys().cloned().collect();
        let turns: Vec<_> = names
            .iter()
            .flat_map(|name| state.give(self, name, now))
            .collect();
        drop(state);
        drop(turns);
        self.free.notify_one();
        limits
    }

    /// Asks for the turn of a message. It may wait in memory for a moment, unless it is `interrupted`.
    pub(in crate::consumer) async fn enter(
        self: &Arc<Self>,
        message: &Message,
        interrupted: impl Future<Output = ()>,
    ) -> Entry {
        let Some(key) = self.by.as_ref().and_then(|by| by.key(message)) else {
            return Entry::Begins(None);
        };
        let waits = match self.ask(&key) {
            Asked::Turn(turn) if turn.at <= Instant::now() => {
                return Entry::Begins(Some(turn.begin()));
            }
            Asked::Turn(turn) => Either::Left(ready(Ok(turn))),
            Asked::Wait(given) => Either::Right(given),
            Asked::HeldBack(wait) => {
                self.held_back.increment(1);
                let why = NotNow::Limited(key);
                return Entry::HeldBack(HeldBack { why, wait });
            }
            Asked::Unlimited => return Entry::Begins(None),
        };
        let begins = async {
            let turn = waits.await.ok()?;
            sleep_until(turn.at).await;
            Some(turn.begin())
        };
        tokio::select! {
            biased;
            () = interrupted => Entry::Interrupted,
            turn = begins => turn.map_or(Entry::Interrupted, |turn| Entry::Begins(Some(turn))),
        }
    }

    fn ask(self: &Arc<Self>, name: &str) -> Asked {
        let now = Instant::now();
        let most_in_memory = self.most_in_memory();
        let mut state = self.state();
        let state = &mut *state;
        if !state.has_room(name, &self.queue, now) {
            return Asked::Unlimited;
        }
        state.forget_ended(name);
        let limits = state.limits;
        let new = || Key::new(limits, now);
        let key = state.keys.entry(name.to_owned()).or_insert_with(new);
        key.came();
        if !key.is_free(limits, now) && state.held < MOST_HELD {
            let most = key.most_in_memory(limits, most_in_memory / 2, now);
            if key.in_memory() >= most || state.in_memory >= most_in_memory {
                let wait = limits.rate.map(|rate| time_of(rate, key.held));
                key.held += 1;
                state.held += 1;
                return Asked::HeldBack(wait.unwrap_or_default().min(LONGEST));
            }
        }
        state.in_memory += 1;
        if key.waiting.is_empty() && key.has_place(limits) {
            return Asked::Turn(self.turn(name, key.take(now)));
        }
        let (giver, given) = oneshot::channel();
        key.waiting.push_back(giver);
        Asked::Wait(given)
    }

    fn turn(self: &Arc<Self>, key: &str, at: Instant) -> Turn {
        Turn {
            each: Arc::clone(self),
            key: key.to_owned(),
            at,
            has_begun: false,
        }
    }

    /// The most messages that wait in memory, of all keys: the others in flight are free for messages that need not wait.
    fn most_in_memory(&self) -> usize {
        self.budget.most() / 2
    }

    /// Returns when a key may have a turn for a message that is held back.
    pub(in crate::consumer) async fn freed(&self) {
        self.free.notified().await;
    }

    /// How many messages of each of these keys, which are held back, have their turn now or soon. What can begin at once does not wait in memory; the places in memory are shared by the keys, one after another, and those with the fewest messages there come first.
    pub(in crate::consumer) fn wanted(&self, keys: &[&str]) -> Vec<usize> {
        let now = Instant::now();
        let state = self.state();
        let (limits, most_in_memory) = (state.limits, self.most_in_memory());
        let new = Key::new(limits, now);
        let known = |name: &&str| state.keys.get(*name).unwrap_or(&new);
        let wanted: Vec<_> = keys
            .iter()
            .map(|name| known(name).wanted(limits, most_in_memory / 2, now))
            .collect();
        let mut allotted: Vec<_> = wanted.iter().map(|it| it.at_once).collect();
        let mut order: Vec<_> = (0..keys.len()).collect();
        order.sort_by_key(|index| keys.get(*index).map(|name| known(name).in_memory()));
        let mut left = most_in_memory.saturating_sub(state.in_memory);
        let mut round = 0;
        while left > 0 && wanted.iter().any(|it| it.soon > round) {
            for index in &order {
                let wants_more = wanted.get(*index).is_some_and(|it| it.soon > round);
                if wants_more
                    && left > 0
                    && let Some(allotted) = allotted.get_mut(*index)
                {
                    *allotted = allotted.saturating_add(1);
                    left -= 1;
                }
            }
            round += 1;
        }
        allotted
    }

    /// The messages of each key that are held back, and those of them that were brought back now.
    pub(in crate::consumer) fn brought(&self, counted: impl Iterator<Item = (String, OfCode)>) {
        let now = Instant::now();
        let counted: HashMap<_, _> = counted.collect();
        let mut state = self.state();
        let State { keys, held, .. } = &mut *state;
        *held = 0;
        for (name, key) in keys {
            let of = counted.get(name).copied().unwrap_or_default();
            key.brought(of.held, of.brought, now);
            *held += key.held;
        }
    }

    /// The limits, and the keys that are at one: some of them at most.
    pub(super) fn serving(&self) -> Option<EachServing> {
        let by = self.by.as_ref()?.to_string();
        let state = self.state();
        let at_limit = state.keys.iter().filter(|(_, key)| key.is_limited());
        let mut limited: Vec<_> = at_limit
            .map(|(name, key)| LimitedKey {
                key: name.clone(),
                in_flight: key.in_hand - key.early,
                waiting: key.in_memory(),
                held_back: key.held,
            })
            .collect();
        limited.sort_by(|one, other| {
            let waiting = |it: &LimitedKey| it.waiting + it.held_back;
            waiting(other)
                .cmp(&waiting(one))
                .then_with(|| one.key.cmp(&other.key))
        });
        let keys = limited.len();
        limited.truncate(NAMED);
        Some(EachServing {
            by,
            rate: state.limits.rate.map(|rate| rate.to_string()),
            max_in_flight: state.limits.max_in_flight,
            keys,
            limited,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Whether there is room for a key. Idle ones make place.
    fn has_room(&mut self, name: &str, queue: &str, now: Instant) -> bool {
        if self.keys.len() < self.sweep_at || self.keys.contains_key(name) {
            return true;
        }
        let is_soon = now.duration_since(self.swept) < SWEPT;
        if self.keys.len() < MOST_KEYS || !is_soon {
            self.keys.retain(|_, key| !key.is_idle(now));
            self.sweep_at = (2 * self.keys.len()).clamp(SWEEP_AT, MOST_KEYS);
            self.swept = now;
        }
        let has_room = self.keys.len() < MOST_KEYS;
        if !has_room && !std::mem::replace(&mut self.has_said_too_many, true) {
            tracing::warn!(
                queue,
                keys = MOST_KEYS,
                "the messages of more keys are under way than limits are kept for: those of other keys have no limit"
            );
        }
        has_room
    }

    /// Forgets messages of a key that do not wait any more.
    fn forget_ended(&mut self, name: &str) {
        if let Some(key) = self.keys.get_mut(name) {
            let before = key.waiting.len();
            key.waiting.retain(|giver| !giver.is_closed());
            self.in_memory = self.in_memory.saturating_sub(before - key.waiting.len());
        }
    }

    /// Gives the turns of a key to those that wait. Returns those that nobody took, to be dropped without the lock.
    fn give(&mut self, each: &Arc<Each>, name: &str, now: Instant) -> Vec<Turn> {
        self.forget_ended(name);
        let limits = self.limits;
        let Some(key) = self.keys.get_mut(name) else {
            return Vec::new();
        };
        let mut left_over = Vec::new();
        while key.has_place(limits)
            && let Some(giver) = key.waiting.pop_front()
        {
            let turn = each.turn(name, key.take(now));
            left_over.extend(giver.send(turn).err());
        }
        left_over
    }
}

impl Turn {
    /// The attempt begins.
    fn begin(mut self) -> Self {
        let mut state = self.each.state();
        state.in_memory = state.in_memory.saturating_sub(1);
        if let Some(key) = state.keys.get_mut(&self.key) {
            key.early = key.early.saturating_sub(1);
        }
        drop(state);
        self.has_begun = true;
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.each.state();
        if !self.has_begun {
            state.in_memory = state.in_memory.saturating_sub(1);
        }
        let mut is_held = false;
        if let Some(key) = state.keys.get_mut(&self.key) {
            key.end(self.has_begun, now);
            is_held = key.held > 0;
        }
        let left_over = state.give(&self.each, &self.key, now);
        drop(state);
        drop(left_over);
        if is_held {
            self.each.free.notify_one();
        }
    }
}

/// The time in which so many messages have their turn.
fn time_of(rate: Rate, messages: usize) -> Duration {
    let messages = u32::try_from(messages).unwrap_or(u32::MAX);
    rate.interval().saturating_mul(messages)
}

#[cfg(test)]
mod tests;
