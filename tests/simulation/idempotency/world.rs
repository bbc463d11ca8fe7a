//! What the hosts share: the plan, the chance, the history, the table, and what is the matter with each host.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_idempotency::{Clock, Sleep, TokioClock};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::history::{Event, History, Row};
use super::plan::{HOSTS, Kind, Plan};
use super::table::{Refusal, Table};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    history: History,
    table: Table,
    /// The keys of records, with those of the plan.
    keys: HashMap<String, u32>,
    /// Ends the processes of a host.
    alive: [CancellationToken; HOSTS],
    calls: u32,
    /// How often the work of each planned call was done.
    works: HashMap<usize, u32>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let keys: &[&str] = if plan.sort_key {
            &["id", "sk"]
        } else {
            &["id"]
        };
        let state = State {
            random: ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(1)),
            history: History::default(),
            table: Table::new(keys),
            keys: HashMap::new(),
            alive: Default::default(),
            calls: 0,
            works: HashMap::new(),
        };
        Arc::new(Self {
            plan,
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

    pub(crate) async fn until(&self, at: Duration) {
        sleep_until(self.started + at).await;
    }

    pub(crate) fn happened(&self, event: Event) {
        let now = self.now();
        self.state().history.events.push((now, event));
    }

    pub(crate) fn never_ended(&self, what: String) {
        self.state().history.unended.push(what);
    }

    pub(crate) fn history(&self) -> History {
        self.state().history.clone()
    }

    pub(crate) fn named(&self, key: &str, number: u32) {
        self.state().keys.insert(key.to_owned(), number);
    }

    pub(crate) fn next_call(&self) -> u32 {
        let mut state = self.state();
        state.calls += 1;
        state.calls
    }

    /// How often the work of this planned call was done, with this time.
    pub(crate) fn works(&self, planned: usize) -> u32 {
        let mut state = self.state();
        let works = state.works.entry(planned).or_default();
        *works += 1;
        *works
    }

    pub(crate) fn is_under_way(&self, kind: Kind) -> bool {
        self.under_way().any(|it| it == kind)
    }

    fn under_way(&self) -> impl Iterator<Item = Kind> {
        let now = self.now();
        let all = self.plan.disturbances.iter();
        let running = all.filter(move |it| it.from <= now && now < it.to());
        running.map(|it| it.kind)
    }

    /// Whether something of this kind is under way, and hits.
    pub(crate) fn strikes(&self, kind: Kind, ratio: (u32, u32)) -> bool {
        self.is_under_way(kind) && self.chance(ratio)
    }

    pub(crate) fn chance(&self, ratio: (u32, u32)) -> bool {
        self.state().random.random_ratio(ratio.0, ratio.1)
    }

    pub(crate) fn milliseconds(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.state().random.random_range(from..to))
    }

    pub(crate) fn any_host(&self) -> usize {
        self.state().random.random_range(0..super::plan::LAST)
    }

    /// How far a host's clock is ahead, in milliseconds.
    pub(crate) fn offset(&self, host: usize) -> i64 {
        let steps = self.under_way().map(|kind| match kind {
            Kind::Clock { host: of, seconds } if of == host => seconds * 1_000,
            _ => 0,
        });
        self.plan.skews[host] + steps.sum::<i64>()
    }

    fn frozen_until(&self, host: usize) -> Option<Instant> {
        let now = self.now();
        let all = self.plan.disturbances.iter();
        let frozen = all.filter(|it| it.kind == Kind::Freeze { host });
        let frozen = frozen.filter(|it| it.from <= now && now < it.to());
        frozen.map(|it| self.started + it.to()).max()
    }

    /// Ends everything that a host does.
    pub(crate) fn kill(&self, host: usize) {
        self.state().alive[host].cancel();
    }

    pub(crate) fn restart(&self, host: usize) {
        self.state().alive[host] = CancellationToken::new();
    }

    pub(crate) fn is_up(&self, host: usize) -> bool {
        !self.state().alive[host].is_cancelled()
    }

    /// Does this on a host, which may be frozen or killed: then nobody learns how it would have ended.
    pub(crate) async fn on<T>(&self, host: usize, work: impl Future<Output = T>) -> Option<T> {
        let alive = self.state().alive[host].clone();
        let mut work = Box::pin(work);
        let mut thaw = None;
        let frozen = poll_fn(|context| {
            while let Some(until) = self.frozen_until(host) {
                let sleep = thaw.insert(Box::pin(sleep_until(until)));
                if sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
            work.as_mut().poll(context)
        });
        alive.run_until_cancelled(frozen).await
    }

    /// Carries out a request of a call, and says what it made of the record.
    pub(crate) fn request(
        &self,
        call: u32,
        host: usize,
        operation: &str,
        body: &Value,
    ) -> Result<Value, Refusal> {
        let attributes = if operation == "PutItem" {
            "Item"
        } else {
            "Key"
        };
        let name = if self.plan.sort_key { "sk" } else { "id" };
        let place = body[attributes][name]["S"].as_str().unwrap().to_owned();
        let (key, row, answer) = {
            let mut state = self.state();
            let before = state.table.get(&place).cloned();
            let answer = state.table.request(operation, body);
            let after = state.table.get(&place);
            if after == before.as_ref() {
                return answer;
            }
            (state.keys[&place], after.map(row), answer)
        };
        let now = HostClock::time_at(self.offset(host));
        self.happened(Event::Written {
            call,
            key,
            now,
            row,
        });
        answer
    }

    /// Deletes what has expired, now and then.
    pub(crate) async fn expire(&self) {
        loop {
            tokio::time::sleep(self.milliseconds(5_000, 120_000)).await;
            let now = HostClock::time_at(0) / 1_000;
            let mut state = self.state();
            let State { table, random, .. } = &mut *state;
            let gone = table.expire(now, || random.random_ratio(1, 2));
            let gone: Vec<_> = gone.iter().map(|place| state.keys[place]).collect();
            drop(state);
            for key in gone {
                self.happened(Event::Expired { key });
            }
        }
    }
}

fn row(item: &super::expression::Item) -> Row {
    let text = |name: &str| item.get(name).and_then(|it| it["S"].as_str());
    let number = |name: &str| item[name]["N"].as_str().unwrap().parse().unwrap();
    Row {
        status: text("status").unwrap().to_owned(),
        owner: text("backstop_owner").unwrap().to_owned(),
        lease: number("in_progress_expiration"),
        expires: number("expiration"),
        data: text("data").map(|it| it.trim_matches('"').to_owned()),
    }
}

/// The clocks of a host: its time of day is wrong by a little, or by an hour.
#[derive(Debug, Clone)]
pub(crate) struct HostClock {
    pub(crate) world: Arc<World>,
    pub(crate) host: usize,
}

impl HostClock {
    /// The time of day with this offset, in milliseconds since 1970.
    pub(crate) fn time_at(offset: i64) -> u64 {
        TokioClock.time().0.strict_add_signed(offset)
    }
}

impl Clock for HostClock {
    fn now(&self) -> std::time::Instant {
        TokioClock.now()
    }

    fn time(&self) -> Timestamp {
        Timestamp(Self::time_at(self.world.offset(self.host)))
    }

    fn sleep_until(&self, until: std::time::Instant) -> Sleep {
        TokioClock.sleep_until(until)
    }
}
