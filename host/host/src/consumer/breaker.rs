//! The breaker of a queue: whether an attempt is worthwhile now, for the whole queue or for each key of its messages.
//!
//! Every attempt enters it, and leaves it with its outcome: only failures that the policy calls transient or throttled count, and those of which it says that something is down. While the breaker of the queue is open, nothing is polled but its probes. A message whose key is down is made invisible without an attempt; `held_back` brings such messages again when a probe is due, and when the key is up again.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::breaker::{Breakers, Outcome, Permit, Refused, State};
use backstop_core::lock::lock;
use metrics::{Counter, Gauge};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::field::display;

use super::not_now::{HeldBack, NotNow};
use crate::config::{BreakerOptions, InCommon};
use crate::decision::Decision;
use crate::failure::{Error, Milliseconds};
use crate::queue::Message;
use crate::telemetry;

/// The most keys that have a breaker at the same time.
const MOST_KEYS: usize = 1_000;

/// The most keys that are up again and whose messages have not been brought back yet.
const MOST_RECOVERED: usize = MOST_KEYS;

/// The most keys that a report names.
const NAMED: usize = 20;

/// How often an open breaker is looked at again: nobody tells of a poll that has ended.
const CHECK: Duration = Duration::from_millis(50);

/// The breaker of one queue.
pub(crate) struct Breaker {
    queue: String,
    of: Option<Of>,
    /// Whether every message of the queue may be attempted.
    is_free: AtomicBool,
    changed: watch::Sender<()>,
    open: Gauge,
    held_back: Counter,
    /// Whether the log says that the policy's outages change nothing here.
    has_said_no_breaker: AtomicBool,
}

struct Of {
    by: InCommon,
    keys: Mutex<Keys>,
}

struct Keys {
    breakers: Breakers<String>,
    /// Keys that are up again.
    recovered: Vec<String>,
}

/// An attempt that was let through. It proves nothing if it is dropped.
pub(super) struct Entered<'a> {
    breaker: &'a Breaker,
    key: String,
    permit: Option<Permit>,
}

/// Something that is not attempted, or not at full speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Down {
    /// The key; without one, the whole queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `open`, `probing` or `growing`.
    pub state: String,
    /// The failures since the last success.
    pub failed: u32,
}

backstop_core::shown!(Breaker, breaker => queue = breaker.queue);

impl Breaker {
    /// The breaker of the queue with this name. Without options, everything passes.
    pub(crate) fn new(queue: &str, options: Option<&BreakerOptions>) -> Self {
        let metrics = telemetry::Queue::named(queue);
        let open = metrics.breakers_open();
        open.set(0);
        let of = options.map(|options| Of {
            by: options.by.clone(),
            keys: Mutex::new(Keys {
                breakers: Breakers::new(options.settings, MOST_KEYS),
                recovered: Vec::new(),
            }),
        });
        Self {
            queue: queue.to_owned(),
            of,
            is_free: AtomicBool::new(true),
            changed: watch::Sender::default(),
            open,
            held_back: metrics.held_back(),
            has_said_no_breaker: AtomicBool::new(false),
        }
    }

    /// Changes the numbers. What is down together stays, and a queue without a breaker has none.
    pub(crate) fn set(&self, options: Option<&BreakerOptions>) {
        if let (Some(of), Some(options)) = (&self.of, options) {
            of.keys().breakers.set_settings(options.settings);
            self.changed.send_replace(());
        }
    }

    /// Whether messages have breakers by a key.
    pub(super) fn has_keys(&self) -> bool {
        self.of.as_ref().is_some_and(|of| of.by != InCommon::Queue)
    }

    /// Asks for an attempt of this message.
    pub(super) fn enter(&self, message: &Message) -> Result<Entered<'_>, HeldBack> {
        let entered = |key, permit| Entered {
            breaker: self,
            key,
            permit,
        };
        let Some((of, key)) = self
            .of
            .as_ref()
            .and_then(|of| Some((of, of.by.key(message)?)))
        else {
            return Ok(entered(String::new(), None));
        };
        let now = Instant::now().into_std();
        let result = of.keys().breakers.enter(key.as_str(), now);
        match result {
            Ok(permit) => Ok(entered(key, permit)),
            Err(refused) => {
                self.held_back.increment(1);
                let wait = match refused {
                    Refused::Open { until } => until.saturating_duration_since(now),
                    Refused::Probing | Refused::Full { .. } => Duration::ZERO,
                };
                let why = if key.is_empty() {
                    NotNow::QueueDown
                } else {
                    NotNow::Down(key)
                };
                Err(HeldBack { why, wait })
            }
        }
    }

    fn leave(&self, key: &str, permit: Permit, outcome: Outcome) {
        let Some(of) = &self.of else { return };
        let mut keys = of.keys();
        let changed = keys.breakers.leave(key, permit, outcome);
        let is_first = keys
            .breakers
            .get(key)
            .is_some_and(|it| it.status().pauses <= 1);
        if changed == Some(State::Closed)
            && !key.is_empty()
            && keys.recovered.len() < MOST_RECOVERED
        {
            keys.recovered.push(key.to_owned());
        }
        drop(keys);
        if let Some(state) = changed {
            self.log(key, state, is_first, outcome);
            self.notice_change(of);
        }
        if !self.is_free() {
            self.changed.send_replace(());
        }
    }

    /// The policy says that something is down, and the queue has no breaker that could act on it.
    fn miss_outage(&self) {
        if self.of.is_none() && !self.has_said_no_breaker.swap(true, SeqCst) {
            tracing::warn!(
                queue = self.queue,
                "the policy says that something is down, which changes nothing: the queue has no breaker"
            );
        }
    }

    fn log(&self, key: &str, state: State, is_first: bool, outcome: Outcome) {
        let down_for = match outcome {
            Outcome::Failed { down_for, .. } => down_for.map(Milliseconds::from_duration),
            Outcome::Succeeded { .. } | Outcome::Neither => None,
        };
        let (queue, key) = (&self.queue, (!key.is_empty()).then_some(key));
        match state {
            State::Open { .. } if is_first => {
                let down_for = down_for.map(display);
                tracing::warn!(
                    queue,
                    key,
                    "down-for" = down_for,
                    "what is behind the worker is down: nothing is attempted but one probe at a time, and no attempt is counted"
                );
            }
            State::Open { until } => {
                let pause = until.saturating_duration_since(Instant::now().into_std());
                tracing::debug!(queue, key, ?pause, "a probe has failed");
            }
            State::Growing { .. } => {
                tracing::info!(
                    queue,
                    key,
                    "a probe has succeeded: the attempts in flight grow"
                );
            }
            State::Closed => tracing::info!(queue, key, "what is behind the worker is up again"),
            State::Probing => {}
        }
    }

    /// Tells the pollers and the metrics of a change.
    fn notice_change(&self, of: &Of) {
        let is_queue = of.by == InCommon::Queue;
        let keys = of.keys();
        let down = keys.breakers.iter().filter(|(_, it)| is_down(it.state()));
        let down = down.count();
        self.open.set(u32::try_from(down).unwrap_or(u32::MAX));
        self.is_free.store(down == 0 || !is_queue, SeqCst);
        drop(keys);
        self.changed.send_replace(());
    }

    /// Whether any number of messages may be received.
    pub(super) fn is_free(&self) -> bool {
        self.is_free.load(SeqCst)
    }

    /// Whether no message may be attempted now, whatever its key.
    pub(super) fn is_closed(&self) -> bool {
        !self.is_free() && self.room() == Some(0)
    }

    /// How many more messages of the queue may be attempted. `None` is any number.
    fn room(&self) -> Option<usize> {
        let of = self.of.as_ref().filter(|it| it.by == InCommon::Queue)?;
        let keys = of.keys();
        let room = keys.breakers.get("")?.room(Instant::now().into_std())?;
        Some(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Waits until messages may be received; polls that are under way may bring so many. Returns how many more.
    pub(super) async fn passed(&self, expected: impl Fn() -> usize) -> usize {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let left = self
                .room()
                .map_or(usize::MAX, |room| room.saturating_sub(expected()));
            if left > 0 {
                return left;
            }
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = sleep(CHECK) => {}
            }
        }
    }

    /// How many messages of each key that is down, or was until now, are worth an attempt.
    pub(super) fn wanted(&self) -> HashMap<String, usize> {
        let Some(of) = self.of.as_ref().filter(|_| self.has_keys()) else {
            return HashMap::new();
        };
        let now = Instant::now().into_std();
        let keys = of.keys();
        let wanted = keys.breakers.iter().filter_map(|(key, breaker)| {
            let room = usize::try_from(breaker.room(now)?).unwrap_or(usize::MAX);
            (room > 0).then(|| (key.clone(), room))
        });
        wanted.collect()
    }

    /// The keys that are up again since the last time.
    pub(super) fn recovered(&self) -> Vec<String> {
        let of = self.of.as_ref();
        of.map_or_else(Vec::new, |of| std::mem::take(&mut of.keys().recovered))
    }

    /// What is down: at most some of it.
    pub(crate) fn down(&self) -> Vec<Down> {
        let Some(of) = &self.of else {
            return Vec::new();
        };
        let keys = of.keys();
        let down = keys.breakers.iter().filter_map(|(key, breaker)| {
            let status = breaker.status();
            let state = match status.state {
                State::Closed => return None,
                State::Open { .. } => "open",
                State::Probing => "probing",
                State::Growing { .. } => "growing",
            };
            Some(Down {
                key: (!key.is_empty()).then(|| key.clone()),
                state: state.to_owned(),
                failed: status.failed,
            })
        });
        let mut down: Vec<_> = down.collect();
        down.sort_by(|one, other| one.key.cmp(&other.key));
        down.truncate(NAMED);
        down
    }
}

impl Of {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        lock(&self.keys)
    }
}

impl Entered<'_> {
    /// The attempt succeeded.
    pub(super) fn succeeded(mut self) {
        let at = Instant::now().into_std();
        self.leave(Outcome::Succeeded { at });
    }

    /// The attempt failed, and this was decided.
    pub(super) fn failed(mut self, decision: &Decision, error: &Error) {
        if decision.down_for.is_some() {
            self.breaker.miss_outage();
        }
        let at = Instant::now().into_std();
        let [retry_after, down_for] =
            [error.retry_after, decision.down_for].map(|time| time.map(Milliseconds::as_duration));
        let class = &decision.class;
        let outcome = Outcome::of_failure(class, at, retry_after, down_for, rand::random());
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            self.breaker.leave(&self.key, permit, outcome);
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.leave(Outcome::Neither);
    }
}

fn is_down(state: State) -> bool {
    match state {
        State::Closed => false,
        State::Open { .. } | State::Probing | State::Growing { .. } => true,
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
