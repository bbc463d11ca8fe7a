//! One simulation: the plan is carried out, and the history comes back.

use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use backstop_queue::{
    Attribute, Connections, LocalQueue, LocalSettings, Outgoing, Queue, VisibilityTimeout,
};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::determinism::{simulated, step_clock};
use super::history::{Event, History};
use super::host::Setting;
use super::operators::{
    Slot, look, narrow, operated, pause, resume, roll_back, set_rate, swap, wake,
};
use super::plan::{Disturbance, HOSTS, Kind, OPERATORS, Plan, TENANT, tenant_of};
use super::planted::{Planted, spoilt_version};
use super::policies::Policies;
use super::redrive::Operator;
use super::world::{World, number_of};

/// How long a message may take to end when nothing disturbs any more.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The places for hosts.
type Slots = [Slot; HOSTS];

/// Carries out a plan.
pub(crate) fn run(policies: &Policies, plan: Plan, planted: Option<Planted>) -> History {
    // What a process makes once, it must not make from the randomness of a seed.
    static FIRST: Once = Once::new();
    FIRST.call_once(|| drop(carry_out(policies, Plan::of_a_redrive(), None)));
    carry_out(policies, plan, planted)
}

fn carry_out(policies: &Policies, plan: Plan, planted: Option<Planted>) -> History {
    // In memory, if there is such a place: nobody needs these files after a power failure.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let folder = folder.unwrap();
    let policy = policies.of(&plan, folder.path(), planted);
    let (seed, path) = (plan.seed, folder.path().to_owned());
    simulated(seed, async move || {
        let world = World::new(plan, planted);
        let fifo = if world.plan.fifo { ".fifo" } else { "" };
        let connections = Connections::default();
        let settings = |retention, max_in_flight| LocalSettings {
            retention,
            max_in_flight,
            ..LocalSettings::default()
        };
        let (retention, most) = (world.plan.retention, world.plan.most_in_flight);
        let setting = Arc::new(Setting {
            queue: connections
                .local
                .set_up(&format!("orders{fifo}"), settings(retention, most)),
            dead_letters: connections
                .local
                .set_up(&format!("dead{fifo}"), settings(LONGEST * 2, 120_000)),
            world: Arc::clone(&world),
            connections,
            policy,
            hosts: Mutex::new(0),
            folder: path,
        });
        LocalSet::new().run_until(whole(&setting)).await;
        world.history()
    })
}

async fn whole(setting: &Arc<Setting>) {
    let world = &setting.world;
    if let Some(first) = world.plan.versions.first() {
        setting.policy.write(&spoilt_version(world.planted, first));
    }
    let mut actors = JoinSet::new();
    let messages = Arc::clone(setting);
    actors.spawn_local(async move { send_all(&messages).await });
    let hosts = Slots::default();
    *hosts[0].lock().await = Some(setting.start(0).await);
    for disturbance in world.plan.disturbances.clone() {
        let (setting, hosts) = (Arc::clone(setting), hosts.clone());
        actors.spawn_local(async move {
            setting.world.until(disturbance.from).await;
            disturb(&setting, &hosts, &disturbance).await;
        });
    }
    while actors.join_next().await.is_some() {}
    world.until(world.plan.calm()).await;
    begin(setting, &hosts[0], 0).await;
    // Whatever operators have begun, they end.
    for slot in &hosts {
        let Some(host) = operated(slot).await else {
            continue;
        };
        resume(&host).await;
    }
    for operator in 0..OPERATORS {
        Operator::finish(setting, operator).await;
    }
    if world.plan.ends.is_none() {
        // A host with a planted fault may never end.
        let longest = world
            .planted
            .map_or(LONGEST, |_| Duration::from_secs(3_600));
        if timeout(longest, emptied(&setting.queue)).await.is_err() {
            world.never_ended(format!("{} messages are in the queue", setting.queue.len()));
        }
    }
    for slot in &hosts {
        if let Some(host) = slot.lock().await.take() {
            let _ = host.stop().await;
        }
    }
    if world.plan.ends.is_some() {
        find_all(setting).await;
    }
}

/// Does what a disturbance is.
async fn disturb(setting: &Arc<Setting>, hosts: &Slots, disturbance: &Disturbance) {
    let world = &setting.world;
    match disturbance.kind {
        Kind::Kill { host } => {
            let slot = &hosts[host];
            let Some(killed) = slot.lock().await.take() else {
                return;
            };
            killed.kill();
            world.until(disturbance.to()).await;
            begin(setting, slot, host).await;
        }
        Kind::Stop { host } => {
            let slot = &hosts[host];
            let Some(stopped) = slot.lock().await.take() else {
                return;
            };
            let ended = stopped.stop();
            world.until(disturbance.to()).await;
            begin(setting, slot, host).await;
            let _ = ended.await;
        }
        Kind::Freeze { host: slot } => {
            world.happened(Event::Frozen { slot });
            world.until(disturbance.to()).await;
            world.happened(Event::Thawed { slot });
        }
        Kind::Second => begin(setting, &hosts[1], 1).await,
        Kind::Swap => swap(setting, hosts).await,
        Kind::Check => look(setting, hosts, true).await,
        Kind::RollBack => roll_back(hosts).await,
        Kind::Wake => {
            for slot in hosts {
                if let Some(host) = operated(slot).await {
                    wake(&host);
                }
            }
        }
        Kind::Pause { host: slot } => {
            let Some(host) = operated(&hosts[slot]).await else {
                return;
            };
            pause(&host).await;
            world.until(disturbance.to()).await;
            if let Some(host) = operated(&hosts[slot]).await {
                resume(&host).await;
            }
        }
        Kind::Rate { host: slot } => {
            let Some(host) = operated(&hosts[slot]).await else {
                return;
            };
            set_rate(&host, Some(1)).await;
            world.until(disturbance.to()).await;
            set_rate(&host, None).await;
        }
        Kind::Narrow { host: slot } => {
            let Some(host) = operated(&hosts[slot]).await else {
                return;
            };
            narrow(&host, 1).await;
            world.until(disturbance.to()).await;
            narrow(&host, world.plan.most).await;
        }
        Kind::Redrive { operator } => {
            let operator = Operator::new(setting, operator);
            operator.redrive(CancellationToken::new()).await;
        }
        Kind::KilledRedrive { operator } => {
            let operator = Arc::new(Operator::new(setting, operator));
            let stop = CancellationToken::new();
            let (running, token) = (Arc::clone(&operator), stop.clone());
            let run = spawn_local(async move { running.redrive(token).await });
            world.until(disturbance.to()).await;
            if !run.is_finished() {
                operator.kill();
                run.abort();
                let _ = run.await;
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
        | Kind::ExpiredHandles
        | Kind::NoDeadLetterQueue
        | Kind::RefusedLetters
        | Kind::WorkerDown
        | Kind::Outage { .. } => {}
    }
}

/// Waits until a queue is empty. It tells nobody which messages it has dropped.
async fn emptied(queue: &LocalQueue) {
    const CHECK: Duration = Duration::from_secs(60);
    while !queue.is_empty() {
        let _ = timeout(CHECK, queue.emptied()).await;
    }
}

async fn begin(setting: &Setting, slot: &Slot, at: usize) {
    let mut slot = slot.lock().await;
    if slot.is_none() {
        *slot = Some(setting.start(at).await);
    }
}

/// Receives what is left in the queue, each message when it comes.
async fn find_all(setting: &Setting) {
    let (world, queue) = (&setting.world, &setting.queue);
    let end = world.now() + Duration::from_secs(2 * 86_400);
    while !queue.is_empty() && world.now() < end {
        let wait = Duration::from_secs(20);
        let found = queue.receive(10, wait, VisibilityTimeout::MAX).await;
        for message in found.unwrap() {
            let number = number_of(&message.body);
            world.happened(Event::Found { number });
            let deleted = queue.delete(&[message.receipt_handle]).await;
            deleted.unwrap()[0].clone().unwrap();
        }
    }
}

async fn send_all(setting: &Setting) {
    let world = &setting.world;
    let mut messages = world.plan.messages.clone();
    messages.sort_by_key(|message| message.at);
    for message in messages {
        world.until(message.at).await;
        let fifo = world.plan.fifo;
        let tenant = Attribute::string(format!("tenant-{}", tenant_of(message.number)));
        let outgoing = Outgoing {
            group: fifo.then(|| format!("group-{}", message.group)),
            attributes: [(TENANT.to_owned(), tenant)].into(),
            ..Outgoing::new(format!("order {}", message.number))
        };
        let sent = setting.queue.send_tracked(&[outgoing]).await.unwrap();
        let number = message.number;
        world.named(sent[0].as_ref().unwrap().as_deref(), number);
        world.happened(Event::Sent { number });
    }
}
