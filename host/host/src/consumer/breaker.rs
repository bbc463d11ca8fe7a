//! The breaker of a queue: whether an attempt is worthwhile now, for the whole queue or for each key of its messages.
//!
//! Every attempt enters it, and leaves it with its outcome: only failures that the policy calls transient or throttled count. While the breaker of the queue is open, nothing is polled but its probes. A message whose key is down is made invisible without an attempt; `held_back` brings such messages again when a probe is due, and when the key is up again.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::breaker::{Breakers, Outcome, Permit, Refused, State};
use backstop_core::lock::lock;
use backstop_core::text::{cut, one_line};
use backstop_json::pointer;
use metrics::{Counter, Gauge};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::config::{BreakerKey, BreakerOptions};
use crate::decision::ErrorClass;
use crate::failure::Error;
use crate::queue::Message;
use crate::telemetry;

/// The most keys that have a breaker at the same time.
const MOST_KEYS: usize = 1_000;

/// The most bytes of a key.
const KEY_BYTES: usize = 128;

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
}

struct Of {
    by: BreakerKey,
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

/// A message that is not attempted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldBack {
    /// The key that is down. It is empty for the whole queue.
    pub(super) key: String,
    /// When it may be worthwhile again, at the earliest.
    pub(super) wait: Duration,
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

impl std::fmt::Debug for Breaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breaker")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Breaker {
    /// The breaker of the queue with this name. Without options, everything passes.
    pub(super) fn new(queue: &str, options: Option<&BreakerOptions>) -> Self {
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
        }
    }

    /// Whether messages are told apart by a key.
    pub(super) fn has_keys(&self) -> bool {
        self.of
            .as_ref()
            .is_some_and(|of| of.by != BreakerKey::Queue)
    }

    /// Asks for an attempt of this message.
    pub(super) fn enter(&self, message: &Message) -> Result<Entered<'_>, HeldBack> {
        let entered = |key, permit| Entered {
            breaker: self,
            key,
            permit,
        };
        let Some((of, key)) = self.of.as_ref().and_then(|of| Some((of, of.key(message)?))) else {
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
                Err(HeldBack { key, wait })
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
            self.log(key, state, is_first);
            self.notice_change(of);
        }
        if !self.is_free() {
            self.changed.send_replace(());
        }
    }

    fn log(&self, key: &str, state: State, is_first: bool) {
        let (queue, key) = (&self.queue, (!key.is_empty()).then_some(key));
        match state {
            State::Open { .. } if is_first => {
                tracing::warn!(
                    queue,
                    key,
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
        let is_queue = of.by == BreakerKey::Queue;
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
        let of = self.of.as_ref().filter(|it| it.by == BreakerKey::Queue)?;
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
                _ = changed.changed() => {}
                () = sleep(CHECK) => {}
            }
        }
    }

    /// How many messages of each key that is down, or was until now, are worth an attempt.
    pub(super) fn wanted(&self) -> Vec<(String, usize)> {
        let Some(of) = self.of.as_ref().filter(|_| self.has_keys()) else {
            return Vec::new();
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
    /// The key of a message. Without one, the message is attempted.
    fn key(&self, message: &Message) -> Option<String> {
        let text = match &self.by {
            BreakerKey::Queue => return Some(String::new()),
            BreakerKey::Pointer(pointer) => pointer::shown_at(&message.body, pointer)?,
            BreakerKey::Attribute(name) => message.attributes.get(name)?.to_text(),
        };
        let mut text = one_line(&text);
        cut(&mut text, KEY_BYTES);
        (!text.is_empty()).then_some(text)
    }

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

    /// The attempt failed, and its failure has this class.
    pub(super) fn failed(mut self, class: &ErrorClass, error: &Error) {
        let at = Instant::now().into_std();
        let retry_after = error.retry_after.map(|it| it.as_duration());
        self.leave(Outcome::of_failure(class, at, retry_after, rand::random()));
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
mod tests {
    use super::*;
    use crate::queue::ordinary_message;
    use backstop_core::backoff::Backoff;
    use backstop_core::breaker::BreakerSettings;

    fn breaker(by: BreakerKey) -> Breaker {
        let settings = BreakerSettings {
            minimum: 2,
            shortest_outage: Duration::ZERO,
            pauses: Backoff::milliseconds(1_000, 1_000),
            most: 4,
            ..BreakerSettings::default()
        };
        Breaker::new("orders", Some(&BreakerOptions { by, settings }))
    }

    fn of_tenant(tenant: &str) -> Message {
        Message {
            body: format!(r#"{{"tenant":"{tenant}"}}"#).into(),
            ..ordinary_message()
        }
    }

    fn fail(breaker: &Breaker, message: &Message) {
        let entered = breaker.enter(message).ok().unwrap();
        entered.failed(&ErrorClass::Transient, &Error::new("HTTP 503", "busy"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_down_is_polled_for_one_probe_at_a_time() {
        let breaker = breaker(BreakerKey::Queue);
        let message = of_tenant("a");
        assert!(breaker.is_free() && !breaker.has_keys());
        fail(&breaker, &message);
        assert!(breaker.is_free());
        fail(&breaker, &message);
        assert!(!breaker.is_free() && breaker.is_closed());
        assert_eq!(breaker.down()[0].state, "open");
        let started = Instant::now();
        assert_eq!(breaker.passed(|| 0).await, 1);
        let waited = started.elapsed();
        assert!((500..=1_050).contains(&waited.as_millis()), "{waited:?}");
        // A poll is under way for it.
        let another = tokio::time::timeout(Duration::from_secs(60), breaker.passed(|| 1));
        assert!(another.await.is_err());
        let probe = breaker.enter(&message).ok().unwrap();
        assert_eq!(breaker.enter(&message).err().unwrap().wait, Duration::ZERO);
        // What is dropped proves nothing: another one may probe.
        drop(probe);
        breaker.enter(&message).ok().unwrap().succeeded();
        assert!(!breaker.is_closed());
        assert_eq!(breaker.down()[0].state, "growing");
        for _ in 0..50 {
            breaker.enter(&message).ok().unwrap().succeeded();
        }
        tokio::time::sleep(Duration::from_secs(31)).await;
        breaker.enter(&message).ok().unwrap().succeeded();
        assert!(breaker.is_free() && breaker.down().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_down_stops_no_other_and_is_reported() {
        let breaker = breaker(BreakerKey::Pointer("/tenant".to_owned()));
        for _ in 0..2 {
            fail(&breaker, &of_tenant("b"));
        }
        let down = breaker.enter(&of_tenant("b")).err().unwrap();
        assert_eq!(down.key, "b");
        assert!(down.wait > Duration::ZERO);
        assert!(breaker.is_free() && breaker.has_keys());
        breaker.enter(&of_tenant("a")).ok().unwrap().succeeded();
        // Without a key, or with another class, nothing counts.
        for _ in 0..9 {
            let entered = breaker.enter(&ordinary_message()).ok().unwrap();
            entered.failed(&ErrorClass::Transient, &Error::new("HTTP 503", ""));
            let entered = breaker.enter(&of_tenant("c")).ok().unwrap();
            entered.failed(&ErrorClass::Permanent, &Error::new("HTTP 400", ""));
        }
        let down: Vec<_> = breaker.down().into_iter().map(|it| it.key).collect();
        assert_eq!(down, [Some("b".to_owned())]);
        assert_eq!(breaker.wanted(), []);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(breaker.wanted(), [("b".to_owned(), 1)]);
        breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
        assert_eq!(breaker.recovered(), Vec::<String>::new());
        for _ in 0..50 {
            breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
        }
        tokio::time::sleep(Duration::from_secs(31)).await;
        breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
        assert_eq!(breaker.recovered(), ["b"]);
        assert_eq!(breaker.recovered(), Vec::<String>::new());
    }

    #[test]
    fn a_key_is_one_line_of_a_bounded_length() {
        let of = Of {
            by: BreakerKey::Pointer("/tenant".to_owned()),
            keys: Mutex::new(Keys {
                breakers: Breakers::new(BreakerSettings::default(), 1),
                recovered: Vec::new(),
            }),
        };
        assert_eq!(of.key(&of_tenant("")), None);
        let key = of.key(&of_tenant(&"é".repeat(500))).unwrap();
        assert!((100..=KEY_BYTES + 4).contains(&key.len()), "{}", key.len());
        let key = of.key(&of_tenant("a\\nb")).unwrap();
        assert_eq!(key.lines().count(), 1, "{key}");
    }
}
