//! One simulation: the plan is carried out, and the history comes back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_queue::{Connections, LocalSettings, Outgoing, Queue};
use backstop_settle::waiting::{Filter, Wake};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::determinism::{simulated, step_clock};
use super::history::{Event, History};
use super::host::{Host, Setting};
use super::plan::{HOSTS, Kind, Plan};
use super::planted::Planted;
use super::policies::Policies;
use super::world::World;

/// How long a message may take to end when nothing disturbs any more.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Carries out a plan.
pub(crate) fn run(policies: &Policies, plan: Plan, planted: Option<Planted>) -> History {
    let (policy, seed) = (policies.of(&plan), plan.seed);
    simulated(seed, async move || {
        let world = World::new(plan, planted);
        let name = if world.plan.fifo {
            "orders.fifo"
        } else {
            "orders"
        };
        let dead = if world.plan.fifo { "dead.fifo" } else { "dead" };
        let connections = Connections::default();
        let settings = || LocalSettings {
            retention: Duration::from_secs(14 * 86_400),
            ..LocalSettings::default()
        };
        let setting = Arc::new(Setting {
            queue: connections.local.set_up(name, settings()),
            dead_letters: connections.local.set_up(dead, settings()),
            world: Arc::clone(&world),
            connections,
            policy,
            hosts: Mutex::new(0),
        });
        whole(&setting).await;
        world.history()
    })
}

async fn whole(setting: &Arc<Setting>) {
    let world = &setting.world;
    let mut actors = JoinSet::new();
    let messages = Arc::clone(setting);
    actors.spawn(async move { send_all(&messages).await });
    let hosts: [Arc<tokio::sync::Mutex<Option<Host>>>; HOSTS] = Default::default();
    *hosts[0].lock().await = Some(setting.start(0).await);
    for disturbance in world.plan.disturbances.clone() {
        let setting = Arc::clone(setting);
        let hosts = hosts.clone();
        actors.spawn(async move {
            let world = &setting.world;
            world.until(disturbance.from).await;
            match disturbance.kind {
                Kind::Kill { host } => {
                    let slot = &hosts[host];
                    let Some(killed) = slot.lock().await.take() else {
                        return;
                    };
                    killed.kill();
                    world.until(disturbance.to()).await;
                    begin(&setting, slot, host).await;
                }
                Kind::Stop { host } => {
                    let slot = &hosts[host];
                    let Some(stopped) = slot.lock().await.take() else {
                        return;
                    };
                    let ended = stopped.stop();
                    world.until(disturbance.to()).await;
                    begin(&setting, slot, host).await;
                    let _ = ended.await;
                }
                Kind::Freeze { host: slot } => {
                    world.happened(Event::Frozen { slot });
                    world.until(disturbance.to()).await;
                    world.happened(Event::Thawed { slot });
                }
                Kind::Second => begin(&setting, &hosts[1], 1).await,
                Kind::Wake => {
                    world.happened(Event::Woken);
                    for slot in &hosts {
                        wake(slot).await;
                    }
                }
                Kind::ClockForward | Kind::ClockBack => {
                    let is_forward = disturbance.kind == Kind::ClockForward;
                    step_clock(if is_forward { 3_600 } else { -3_600 });
                    world.until(disturbance.to()).await;
                    step_clock(0);
                }
                // They concern requests and attempts, which look themselves.
                Kind::LostAnswers
                | Kind::LateAnswers
                | Kind::Refused
                | Kind::Throttled
                | Kind::PartialFailures
                | Kind::EmptyReceives
                | Kind::Duplicates
                | Kind::WorkerDown => {}
            }
        });
    }
    while actors.join_next().await.is_some() {}
    world.until(world.plan.calm()).await;
    begin(setting, &hosts[0], 0).await;
    // A host with a planted fault may never end.
    let longest = world
        .planted
        .map_or(LONGEST, |_| Duration::from_secs(3_600));
    if timeout(longest, setting.queue.emptied()).await.is_err() {
        world.never_ended(format!("{} messages are in the queue", setting.queue.len()));
    }
    for slot in &hosts {
        if let Some(host) = slot.lock().await.take() {
            let _ = host.stop().await;
        }
    }
}

async fn begin(setting: &Setting, slot: &tokio::sync::Mutex<Option<Host>>, at: usize) {
    let mut slot = slot.lock().await;
    if slot.is_none() {
        *slot = Some(setting.start(at).await);
    }
}

async fn wake(slot: &tokio::sync::Mutex<Option<Host>>) {
    let slot = slot.lock().await;
    let Some(host) = &*slot else { return };
    let waiting = Arc::clone(&host.waiting);
    let all = Wake {
        filter: Filter::default(),
        ..Wake::default()
    };
    // What it has to do for this lasts as long as the requests do.
    drop(tokio::spawn(async move { waiting.wake(&all).await }));
}

async fn send_all(setting: &Setting) {
    let world = &setting.world;
    let mut messages = world.plan.messages.clone();
    messages.sort_by_key(|message| message.at);
    for message in messages {
        world.until(message.at).await;
        let fifo = world.plan.fifo;
        let outgoing = Outgoing {
            group: fifo.then(|| format!("group-{}", message.group)),
            ..Outgoing::new(format!("order {}", message.number))
        };
        let sent = setting.queue.send_tracked(&[outgoing]).await.unwrap();
        let number = message.number;
        world.named(sent[0].as_ref().unwrap().as_deref(), number);
        world.happened(Event::Sent { number });
    }
}
