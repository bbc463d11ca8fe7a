//! What all actors of a simulation share: the plan, the chance, the history, and the messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_queue::{Message, ReceiptHandle};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::history::{Event, History};
use super::plan::{Attempt, CODES, Kind, PERMANENT, Plan, tenant_of};
use super::planted::Planted;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    /// What a faulty host would do, if the checker is checked.
    pub(crate) planted: Option<Planted>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    history: History,
    /// The messages by receipt handle.
    received: HashMap<ReceiptHandle, u32>,
    /// The messages by id, also by those of their copies.
    ids: HashMap<String, u32>,
    /// How many attempts each message has had.
    attempts: HashMap<u32, usize>,
    /// Messages that are delivered once more.
    duplicates: Vec<Message>,
    /// The tags of the dead-letter queue.
    tags: HashMap<String, String>,
    /// The version of the policy that hosts find, in the plan's list.
    version: usize,
    /// The versions by digest.
    versions: HashMap<String, usize>,
}

/// The number in a body.
pub(crate) fn number_of(body: &str) -> u32 {
    body.rsplit(' ').next().unwrap().parse().unwrap()
}

impl World {
    pub(crate) fn new(plan: Plan, planted: Option<Planted>) -> Arc<Self> {
        let state = State {
            random: ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(1)),
            history: History::default(),
            received: HashMap::new(),
            ids: HashMap::new(),
            attempts: HashMap::new(),
            duplicates: Vec::new(),
            tags: HashMap::new(),
            version: 0,
            versions: HashMap::new(),
        };
        Arc::new(Self {
            plan,
            planted,
            started: Instant::now(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until this time of the plan.
    pub(crate) async fn until(&self, at: Duration) {
        tokio::time::sleep_until(self.started + at).await;
    }

    pub(crate) fn happened(&self, event: Event) {
        let now = self.now();
        self.state().history.events.push((now, event));
    }

    pub(crate) fn requested(&self) {
        self.state().history.requests += 1;
    }

    pub(crate) fn never_ended(&self, what: String) {
        self.state().history.unended.push(what);
    }

    pub(crate) fn history(&self) -> History {
        self.state().history.clone()
    }

    /// Whether something of this kind is under way, and hits.
    pub(crate) fn strikes(&self, kind: Kind, ratio: (u32, u32)) -> bool {
        self.is_under_way(kind) && self.state().random.random_ratio(ratio.0, ratio.1)
    }

    pub(crate) fn is_under_way(&self, kind: Kind) -> bool {
        let now = self.now();
        let mut all = self.plan.disturbances.iter();
        all.any(|it| it.kind == kind && it.from <= now && now < it.to())
    }

    /// Until when a host is frozen, if it is.
    pub(crate) fn frozen_until(&self, host: usize) -> Option<Duration> {
        let now = self.now();
        let all = self.plan.disturbances.iter();
        let frozen = all.filter(|it| it.kind == Kind::Freeze { host });
        let frozen = frozen.filter(|it| it.from <= now && now < it.to());
        frozen.map(super::plan::Disturbance::to).max()
    }

    pub(crate) fn milliseconds(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.state().random.random_range(from..to))
    }

    /// Remembers which message a handle belongs to.
    pub(crate) fn handed(&self, message: &Message) {
        let number = number_of(&message.body);
        let handle = message.receipt_handle.clone();
        self.state().received.insert(handle, number);
    }

    pub(crate) fn number_of_handle(&self, handle: &ReceiptHandle) -> u32 {
        self.state().received[handle]
    }

    /// Remembers an id that the queue has given to a message.
    pub(crate) fn named(&self, id: Option<&str>, number: u32) {
        let id = id.map(str::to_owned);
        self.state().ids.extend(id.map(|id| (id, number)));
    }

    pub(crate) fn number_of_id<'a>(&self, mut ids: impl Iterator<Item = &'a str>) -> u32 {
        let state = self.state();
        ids.find_map(|id| state.ids.get(id)).copied().unwrap()
    }

    /// What the next attempt at a message does.
    pub(crate) fn next_attempt(&self, number: u32) -> Attempt {
        let mut state = self.state();
        let made = state.attempts.entry(number).or_default();
        let planned = self.plan.messages.iter().find(|it| it.number == number);
        let attempt = planned.and_then(|it| it.attempts.get(*made)).copied();
        *made += 1;
        attempt.unwrap_or(Attempt {
            takes: Duration::from_millis(10),
            fails: None,
        })
    }

    /// Whether what is behind the worker is down for this message.
    pub(crate) fn is_out(&self, number: u32) -> bool {
        let tenant = Some(tenant_of(number));
        self.is_under_way(Kind::Outage { tenant: None })
            || self.is_under_way(Kind::Outage { tenant })
    }

    /// What an attempt does meanwhile.
    pub(crate) fn attempt_of_outage(&self, number: u32) -> Attempt {
        let passing = CODES.iter().filter(|code| **code != PERMANENT);
        Attempt {
            takes: self.milliseconds(1, 800),
            fails: passing.cycle().nth(number as usize).copied(),
        }
    }

    pub(crate) fn duplicate(&self, message: &Message) {
        self.state().duplicates.push(message.clone());
    }

    pub(crate) fn take_duplicates(&self, most: usize) -> Vec<Message> {
        let mut state = self.state();
        let most = most.min(state.duplicates.len());
        state.duplicates.drain(..most).collect()
    }

    pub(crate) fn tags(&self) -> HashMap<String, String> {
        self.state().tags.clone()
    }

    pub(crate) fn set_tag(&self, key: &str, value: Option<&str>) {
        let mut state = self.state();
        match value {
            Some(value) => state.tags.insert(key.to_owned(), value.to_owned()),
            None => state.tags.remove(key),
        };
    }

    /// The next version of the policy, if there is one.
    pub(crate) fn next_version(&self) -> Option<usize> {
        let mut state = self.state();
        let next = state.version + 1;
        let is_there = next < self.plan.versions.len();
        is_there.then(|| {
            state.version = next;
            next
        })
    }

    /// The version that hosts find now. It has this digest.
    pub(crate) fn found_version(&self, digest: String) -> usize {
        let mut state = self.state();
        let version = state.version;
        state.versions.insert(digest, version);
        version
    }

    pub(crate) fn version_of(&self, digest: &str) -> Option<usize> {
        self.state().versions.get(digest).copied()
    }
}
