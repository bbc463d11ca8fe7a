//! The campaign: everybody starts, messages are sent, disturbances happen, the queues become empty, and what is left is checked.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use rustix::process::Signal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::link::Weather;
use crate::messages::{self, Body, Do, Planned};
use crate::plan::{self, QUEUES};
use crate::site::World;
use crate::{Settings, checker, disturb, evidence, files, operators, producers, report};

pub(crate) async fn run(settings: Settings) -> ExitCode {
    let (seed, seconds) = (settings.seed, settings.seconds);
    println!(
        "chaos: seed {seed}, {} messages and faults for {seconds} s, in {}",
        settings.messages,
        settings.folder.display()
    );
    let started = Instant::now();
    let world = Arc::new(World::start(settings.clone()).await);
    for skipped in &world.log.lock().unwrap().skipped {
        println!("  SKIPPED: {skipped}");
    }
    for host in &world.hosts {
        disturb::up(&world, host, &mut *host.process.lock().await).await;
    }
    println!(
        "  everybody is there after {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let planned = messages::draw(seed, settings.messages, seconds);
    let begin = Instant::now();
    let began = clock::now().0;
    let mut senders = JoinSet::new();
    for (queue, of) in QUEUES.iter().enumerate() {
        let of_queue = planned.iter().filter(|it| it.queue == queue).cloned();
        let of_queue: Vec<Planned> = of_queue.collect();
        // The messages of a FIFO queue have an order.
        let producers = if of.fifo { 1 } else { 8 };
        for at in 0..producers {
            let share = of_queue.iter().skip(at).step_by(producers).cloned();
            let share = share.collect();
            let world = Arc::clone(&world);
            senders.spawn(producers::send_all(world, queue, share, begin));
        }
    }
    let mut disturbing = JoinSet::new();
    let drawn = if settings.calm {
        Vec::new()
    } else {
        plan::draw(seed, seconds)
    };
    for disturbance in drawn {
        let world = Arc::clone(&world);
        disturbing.spawn(async move {
            tokio::time::sleep_until(begin + Duration::from_millis(disturbance.at)).await;
            disturb::carry_out(world, disturbance).await;
        });
    }
    let others = [
        tokio::spawn(supervise(Arc::clone(&world))),
        tokio::spawn(crate::lying::act(Arc::clone(&world))),
        tokio::spawn(progress(Arc::clone(&world), begin)),
    ];
    let sent: Vec<_> = senders.join_all().await.into_iter().flatten().collect();
    disturbing.join_all().await;
    println!(
        "  {} messages are sent, and nothing disturbs any more",
        sent.len()
    );
    heal(&world).await;
    let healed = Instant::now();
    let is_drained = drain(&world).await;
    let drained = healed.elapsed();
    println!(
        "  the queues are {} after {:.1} s",
        if is_drained { "empty" } else { "NOT EMPTY" },
        drained.as_secs_f64()
    );
    others.iter().for_each(JoinHandle::abort);
    watch_memory(&world);
    for host in &world.hosts {
        disturb::stop(&world, host, &mut *host.process.lock().await).await;
    }
    let evidence = evidence::collect(&world, planned, sent, began).await;
    let found = checker::check(&evidence);
    report::write(&world, &evidence, &found, drained, started.elapsed());
    if found.wrong.is_empty() {
        println!("chaos: every rule holds");
        ExitCode::SUCCESS
    } else {
        println!(
            "chaos: {} times a rule is broken; seed {seed}",
            found.wrong.len()
        );
        ExitCode::FAILURE
    }
}

/// Starts hosts that have ended by themselves, which is wrong.
async fn supervise(world: Arc<World>) {
    loop {
        sleep(Duration::from_millis(300)).await;
        for host in &world.hosts {
            let Ok(mut process) = host.process.try_lock() else {
                continue;
            };
            if let Some(how) = host.has_ended(&mut process) {
                world.wrong(format!("{} ended by itself: {how}", host.plan.name));
                disturb::up(&world, host, &mut process).await;
            }
        }
        watch_memory(&world);
    }
}

fn watch_memory(world: &World) {
    for host in &world.hosts {
        let id = host.process.try_lock().ok().and_then(|it| it.id());
        if let Some(memory) = id.and_then(most_memory) {
            let mut log = world.log.lock().unwrap();
            let most = log.memory.entry(host.plan.name).or_default();
            *most = most.max(memory);
        }
    }
}

/// The most memory that a process has had resident, in MiB, unless it has ended meanwhile.
fn most_memory(id: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let most = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = most.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1_024.0)
}

async fn progress(world: Arc<World>, begin: Instant) {
    loop {
        sleep(Duration::from_secs(10)).await;
        let inside = world
            .hosts
            .iter()
            .flat_map(|host| host.queues().map(|queue| host.lines(queue)));
        let files = world.workers.iter().map(|it| it.lines.clone());
        let attempts = files.chain(inside).map(|it| {
            let text = std::fs::read(&it).unwrap_or_default();
            text.iter().filter(|it| **it == b'\n').count() / 2
        });
        let attempts: usize = attempts.sum();
        let (windows, wrong) = {
            let log = world.log.lock().unwrap();
            (log.windows.len(), log.wrong.len())
        };
        println!(
            "  {:>5.0} s: {attempts} attempts, {windows} disturbances, {wrong} wrong",
            begin.elapsed().as_secs_f64()
        );
    }
}

/// Makes sure that nothing disturbs any more.
async fn heal(world: &World) {
    for host in &world.hosts {
        host.to_queue.set(Weather::Fair);
        host.to_workers
            .iter()
            .for_each(|(_, link)| link.set(Weather::Fair));
        let mut process = host.process.lock().await;
        process.signal(Signal::CONT);
        if process.id().is_none() {
            disturb::up(world, host, &mut process).await;
        }
    }
    for queue in 0..QUEUES.len() {
        operators::resume_for_good(world, queue).await;
    }
}

/// Waits until nothing is in the queues but what is to wait for hours.
async fn drain(world: &World) -> bool {
    let limit = Instant::now() + Duration::from_secs(world.settings.drain);
    let mut said = Instant::now();
    loop {
        let mut left = BTreeMap::new();
        for queue in &QUEUES {
            let suffix = if queue.fifo { ".fifo" } else { "" };
            let name = format!("{}{suffix}", queue.name);
            let messages = world.emulators[queue.site].messages(&name).await;
            let active = messages.iter().filter(|it| {
                let body: Result<Body, _> = serde_json::from_str(&it.body);
                let waits_for_hours = body.is_ok_and(|it| it.what == Do::Later);
                !waits_for_hours || it.visible_at < clock::now().0 + 60_000
            });
            left.insert(queue.name, active.count());
        }
        if left.values().all(|it| *it == 0) {
            return true;
        }
        if Instant::now() > limit {
            println!("  left: {left:?}");
            return false;
        }
        if said.elapsed() > Duration::from_secs(10) {
            println!("  draining: {left:?}");
            said = Instant::now();
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Writes a list as lines of JSON.
pub(crate) fn keep<T: serde::Serialize>(world: &World, name: &str, list: &[T]) {
    let lines = list
        .iter()
        .map(|it| serde_json::to_string(it).unwrap() + "\n");
    files::replace(
        &world.folder.join(name),
        lines.collect::<String>().as_bytes(),
    );
}
