//! One simulation: hosts call, are disturbed, and the history comes back.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_idempotency::{
    Attributes, Completed, DynamoStore, Event as Payload, Idempotency, OnUnknown, OnceError,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::history::{Event, History, Outcome};
use super::network::{CALL, Network, client};
use super::plan::{HOSTS, Kind, LAST, Plan, Planned};
use super::planted::{Planted, Spoilt};
use super::world::{HostClock, World};
use crate::determinism::simulated;

/// How often a call is made that does not end.
const TRIES: u32 = 4;

/// The bytes of a result that no item has room for.
const LARGE: usize = 409_500;

/// How long calls may take together, after which they have hung.
const LONGEST: Duration = Duration::from_secs(4 * 3_600);

/// More than latency, and what is still on its way when nothing disturbs any more.
const ON_THE_WAY: Duration = Duration::from_secs(45);

struct Setting {
    world: Arc<World>,
    /// The idempotency of each host.
    hosts: Vec<Idempotency>,
    planted: Option<Planted>,
}

/// Carries out a plan.
pub(crate) fn run(plan: Plan, planted: Option<Planted>) -> History {
    simulated(plan.seed, async move || {
        let world = World::new(plan);
        let hosts = (0..HOSTS).map(|host| idempotency(&world, host, planted));
        let setting = Arc::new(Setting {
            hosts: hosts.collect(),
            world: Arc::clone(&world),
            planted,
        });
        for key in world.plan.calls.iter().map(|it| it.key) {
            let payload = payload(key, false);
            let name = setting.hosts[0].key_of(&payload).unwrap().unwrap();
            world.named(name.as_str(), key);
        }
        whole(&setting).await;
        world.history()
    })
}

fn payload(key: u32, other: bool) -> Payload {
    let total = if other { 250 } else { 100 };
    let text = format!(r#"{{"order": {{"id": "o-{key}", "total": {total}}}}}"#);
    Payload::parse(&text).unwrap()
}

fn idempotency(world: &Arc<World>, host: usize, planted: Option<Planted>) -> Idempotency {
    let plan = &world.plan;
    let network = Network {
        world: Arc::clone(world),
        host,
    };
    let attributes = Attributes::default();
    let mut store = DynamoStore::new(client(network), "idempotency")
        .format(plan.format())
        .attributes(if plan.sort_key {
            attributes.sort_key("sk")
        } else {
            attributes
        });
    if plan.client_retries {
        store = store.client_retries();
    }
    let mut builder = Idempotency::builder(Spoilt(planted, store), "orders")
        .key("/order/id")
        .validate("/order/total")
        .expires_after(plan.expires_after)
        .on_unknown(if plan.dead_letter {
            OnUnknown::DeadLetter
        } else {
            OnUnknown::Retry
        })
        .clock(HostClock {
            world: Arc::clone(world),
            host,
        });
    if let Some(lease) = plan.lease {
        builder = builder.lease(lease);
    }
    builder.build().unwrap()
}

async fn whole(setting: &Arc<Setting>) {
    let world = &setting.world;
    let expiring = Arc::clone(world);
    tokio::spawn(async move { expiring.expire().await });
    let mut actors = JoinSet::new();
    for at in 0..world.plan.calls.len() {
        let setting = Arc::clone(setting);
        actors.spawn(async move { setting.carry_out(at).await });
    }
    for disturbance in world.plan.disturbances.clone() {
        let world = Arc::clone(world);
        actors.spawn(async move {
            world.until(disturbance.from).await;
            disturb(&world, disturbance.kind, true);
            world.until(disturbance.to()).await;
            disturb(&world, disturbance.kind, false);
        });
    }
    let all = async { while actors.join_next().await.is_some() {} };
    if timeout(LONGEST, all).await.is_err() {
        world.never_ended("calls hang".to_owned());
        return;
    }
    world.until(world.plan.calm() + ON_THE_WAY).await;
    let mut keys: Vec<_> = world.plan.calls.iter().map(|it| it.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let lasts = keys.into_iter().map(|key| {
        let setting = Arc::clone(setting);
        async move { setting.end(key).await }
    });
    let lasts: JoinSet<()> = lasts.collect();
    lasts.join_all().await;
}

/// A disturbance begins, or ends.
fn disturb(world: &World, kind: Kind, begins: bool) {
    match (kind, begins) {
        (Kind::Kill { host }, true) => {
            world.kill(host);
            world.happened(Event::Killed { host });
        }
        (Kind::Kill { host }, false) => world.restart(host),
        (Kind::Freeze { host }, true) => world.happened(Event::Frozen { host }),
        (Kind::Freeze { host }, false) => world.happened(Event::Thawed { host }),
        (Kind::Clock { host, .. }, _) => world.happened(Event::ClockSet {
            host,
            seconds: world.offset(host) / 1_000,
        }),
        _ => {}
    }
}

/// Whether nobody calls again after this.
fn is_end(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Completed { .. } | Outcome::Unknown | Outcome::NotStored | Outcome::Mismatch
    )
}

impl Setting {
    /// Makes a planned call, again if it fails, and elsewhere if its host is killed.
    async fn carry_out(&self, at: usize) {
        let (world, planned) = (&self.world, &self.world.plan.calls[at]);
        let mut host = planned.host;
        world.until(planned.at).await;
        for _ in 0..TRIES {
            while !world.is_up(host) {
                sleep(Duration::from_secs(1)).await;
            }
            match world.on(host, self.call(planned, at, host)).await {
                Some(outcome) if is_end(&outcome) => return,
                Some(_) => sleep(world.milliseconds(200, 20_000)).await,
                None => {
                    sleep(world.milliseconds(500, 30_000)).await;
                    host = world.any_host();
                }
            }
        }
    }

    /// Calls until the work of this key has ended.
    async fn end(&self, key: u32) {
        let world = &self.world;
        let plan = &world.plan;
        let planned = Planned {
            key,
            host: LAST,
            at: Duration::ZERO,
            other_payload: false,
            steps: 1,
            step: Duration::from_millis(10),
            fails: 0,
            large: false,
            deadline: None,
            wait: None,
        };
        // A lease that a clock has set an hour too late.
        let mut steps = plan.disturbances.iter();
        let steps = steps.any(|it| matches!(it.kind, Kind::Clock { .. }));
        let steps = Duration::from_secs(if steps { 3_700 } else { 0 });
        let longest = plan.longest_lease() + ON_THE_WAY + steps;
        let calling = async {
            while !is_end(&self.call(&planned, usize::MAX, LAST).await) {
                sleep(Duration::from_secs(5)).await;
            }
        };
        if timeout(longest, calling).await.is_err() {
            world.never_ended(format!("the work of key {key} has not ended"));
        }
    }

    /// One call.
    async fn call(&self, planned: &Planned, at: usize, host: usize) -> Outcome {
        let (world, key, call) = (&self.world, planned.key, self.world.next_call());
        world.happened(Event::Called {
            call,
            key,
            host,
            now: HostClock::time_at(world.offset(host)),
            deadline: planned.deadline,
            wait: planned.wait,
            other_payload: planned.other_payload,
        });
        let payload = payload(key, planned.other_payload);
        let work = || self.work(planned, at, call);
        let mut once = self.hosts[host].once_for(&payload, work);
        if let Some(deadline) = planned.deadline {
            once = once.deadline(deadline);
        }
        if let Some(wait) = planned.wait {
            once = once.or_wait(wait);
        }
        let outcome = outcome(CALL.scope(call, once.into_future()).await);
        world.happened(Event::Returned {
            call,
            key,
            outcome: outcome.clone(),
        });
        outcome
    }

    async fn work(&self, planned: &Planned, at: usize, call: u32) -> Result<String, Error> {
        let (world, key) = (&self.world, planned.key);
        for step in 0..planned.steps {
            world.happened(Event::Stepped { call, key, step });
            sleep(planned.step).await;
        }
        let fails = world.works(at) <= planned.fails;
        let result = format!("key {key} by call {call}");
        world.happened(Event::Worked {
            call,
            key,
            result: (!fails).then(|| result.clone()),
            large: planned.large,
        });
        if fails {
            return Err(Error::new("ECONNRESET", "as planned"));
        }
        if self.planted == Some(Planted::ReturnsAnother) {
            return Ok(format!("{result}, or another"));
        }
        let padding = if planned.large { LARGE } else { 0 };
        Ok(format!("{result}{}", " ".repeat(padding)))
    }
}

fn outcome(ended: Result<Completed<String>, OnceError<Error>>) -> Outcome {
    match ended {
        Ok(done) => Outcome::Completed {
            result: done.result.trim_end().to_owned(),
            repeated: done.repeated,
            recorded: done.recorded,
        },
        Err(OnceError::Work(_)) => Outcome::Failed,
        Err(OnceError::InProgress { .. }) => Outcome::InProgress,
        Err(OnceError::OutcomeUnknown { .. }) => Outcome::Unknown,
        Err(OnceError::LeaseEnded(end)) => Outcome::LeaseEnded(end),
        Err(OnceError::Store(error)) => Outcome::Store(error.error.code),
        Err(OnceError::ResultNotStored { .. }) => Outcome::NotStored,
        Err(OnceError::PayloadMismatch) => Outcome::Mismatch,
        Err(other) => Outcome::Other(other.to_string()),
    }
}
