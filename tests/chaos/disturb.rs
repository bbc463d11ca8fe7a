//! Disturbances are carried out, and logged with the time that each took.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::policies::waits;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use tokio::time::sleep;

use crate::files::replace;
use crate::host::{Host, Process};
use crate::link::Weather;
use crate::lying::Planted;
use crate::plan::{Disturbance, HOSTS, Kind, Program, QUEUES, Side};
use crate::site::{Window, World};
use crate::workers::WorkerProcess;
use crate::{deliveries, hostile, operators};

/// Carries out a disturbance, and puts everything right again.
pub(crate) async fn carry_out(world: Arc<World>, disturbance: Disturbance) {
    let (kind, lasts) = (disturbance.kind, Duration::from_millis(disturbance.lasts));
    let from = clock::now().0;
    let began = |world: &World| {
        let mut log = world.log.lock().unwrap();
        // Until it is over, it lasts for ever.
        log.windows.push(Window {
            from: clock::now().0,
            to: u64::MAX,
            kind,
            hosts: concerned(world, kind),
        });
        log.windows.len() - 1
    };
    let is_possible = match kind {
        Kind::FullDisk => world.small_disk.is_some(),
        Kind::Clock { host, .. } => world.hosts[host].clock.is_some(),
        // A worker inside has no connection, and a program with one has no file that SIGHUP reads.
        Kind::Cut {
            host,
            side: Side::Worker,
        }
        | Kind::Slow {
            host,
            side: Side::Worker,
        }
        | Kind::Stall {
            host,
            side: Side::Worker,
        }
        | Kind::BadConfiguration { host, .. } => world.hosts[host].program == Program::Command,
        _ => true,
    };
    if !is_possible {
        return;
    }
    let window = match host_of(kind) {
        // One at a time for each host: a second one is left out, so that there is always calm again.
        Some(at) => {
            let host = &world.hosts[at];
            let Ok(mut process) = host.process.try_lock() else {
                world.log.lock().unwrap().left_out += 1;
                return;
            };
            let window = began(&world);
            of_host(&world, host, &mut process, kind, lasts, from).await;
            window
        }
        None => {
            let window = began(&world);
            of_others(&world, kind, lasts, from).await;
            window
        }
    };
    world.log.lock().unwrap().windows[window].to = clock::now().0;
}

fn host_of(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Kill { host }
        | Kind::Freeze { host }
        | Kind::Restart { host }
        | Kind::NoDescriptors { host }
        | Kind::LittleMemory { host }
        | Kind::Clock { host, .. }
        | Kind::DamagedState { host, .. }
        | Kind::BadConfiguration { host, .. } => Some(host),
        _ => None,
    }
}

/// The hosts whose messages may be treated otherwise than without it.
fn concerned(world: &World, kind: Kind) -> Vec<&'static str> {
    match kind {
        Kind::Cut { host, .. } | Kind::Slow { host, .. } | Kind::Stall { host, .. } => {
            vec![HOSTS[host].name]
        }
        Kind::DamagedState { host, .. } => {
            let cache = HOSTS[host].cache;
            HOSTS
                .iter()
                .filter(|it| it.cache == cache)
                .map(|it| it.name)
                .collect()
        }
        Kind::Refuse { site } | Kind::Emulator { site } => world.hosts_of(site),
        Kind::KillWorker { queue } | Kind::FreezeWorker { queue } => {
            world.posting_hosts_of(QUEUES[queue].site)
        }
        Kind::FullDisk => vec![HOSTS[0].name],
        _ => host_of(kind).map(|at| HOSTS[at].name).into_iter().collect(),
    }
}

async fn of_host(
    world: &World,
    host: &Host,
    process: &mut Process,
    kind: Kind,
    lasts: Duration,
    random: u64,
) {
    let pause = lasts.min(Duration::from_secs(3));
    match kind {
        Kind::Kill { .. } => {
            host.kill(process).await;
            sleep(pause).await;
        }
        Kind::Freeze { .. } => {
            process.signal(Signal::STOP);
            sleep(lasts * 2).await;
            process.signal(Signal::CONT);
        }
        Kind::Restart { .. } => {
            stop(world, host, process).await;
        }
        Kind::NoDescriptors { .. } => {
            let Some(pid) = process.pid() else { return };
            let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
            let open = std::fs::read_dir(folder).map_or(0, Iterator::count);
            let before = getrlimit(Resource::Nofile);
            let few = Rlimit {
                current: u64::try_from(open).ok().map(|it| it + random % 4),
                ..before
            };
            let _ = prlimit(Some(pid), Resource::Nofile, few);
            sleep(lasts).await;
            let _ = prlimit(Some(pid), Resource::Nofile, before);
        }
        Kind::LittleMemory { .. } => {
            let Some(pid) = process.pid() else { return };
            let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
            let status = status.unwrap_or_default();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
            let size = size.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
            let before = getrlimit(Resource::As);
            let little = Rlimit {
                current: size.map(|kibibytes| (kibibytes + 4_096) * 1_024),
                ..before
            };
            let _ = prlimit(Some(pid), Resource::As, little);
            sleep(lasts).await;
            let _ = prlimit(Some(pid), Resource::As, before);
        }
        Kind::Clock { seconds, .. } => {
            let (_, file) = host.clock.as_ref().unwrap();
            replace(file, format!("{seconds:+}\n").as_bytes());
            sleep(lasts).await;
            replace(file, b"+0\n");
        }
        Kind::DamagedState { kill, .. } => {
            if kill {
                host.kill(process).await;
            } else {
                stop(world, host, process).await;
            }
            let mut random = ChaCha8Rng::seed_from_u64(random);
            let damaged = hostile::damage(&host.cache, &mut random);
            world.note(format!("{}: damaged {damaged:?}", host.plan.name));
        }
        Kind::BadConfiguration { which, .. } => {
            let good = world.config(host);
            let bad = hostile::configuration(&good, which);
            replace(&host.config(), bad.as_bytes());
            process.signal(Signal::HUP);
            sleep(lasts).await;
            replace(&host.config(), good.as_bytes());
            process.signal(Signal::HUP);
        }
        _ => {}
    }
    // Some of these are allowed to end it, and nothing else is.
    let may_end = matches!(kind, Kind::LittleMemory { .. } | Kind::NoDescriptors { .. });
    if process.id().is_some() && !is_running(process) && !may_end {
        world.wrong(format!("{} ended during `{}`", host.plan.name, kind.name()));
    }
    if !is_running(process) {
        up(world, host, process).await;
    }
}

fn is_running(process: &Process) -> bool {
    let stat = process
        .id()
        .map(|id| std::fs::read_to_string(format!("/proc/{id}/stat")));
    // A zombie has ended.
    stat.and_then(Result::ok)
        .is_some_and(|it| !it.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Starts a host; one that does not start is wrong.
pub(crate) async fn up(world: &World, host: &Host, process: &mut Process) {
    if let Err(said) = host.up(process).await {
        world.wrong(format!("{} does not start: {said}", host.plan.name));
    }
}

/// Stops a host; one that does not end is wrong.
pub(crate) async fn stop(world: &World, host: &Host, process: &mut Process) {
    if world.has(Planted::IgnoresStops) && host.plan.name == HOSTS[0].name {
        process.signal(Signal::STOP);
    }
    match host.stop(process).await {
        Ok(took) => {
            let took = u64::try_from(took.as_millis()).unwrap();
            world.log.lock().unwrap().stops.push(took);
        }
        Err(how) => world.wrong(format!("{} was stopped: {how}", host.plan.name)),
    }
}

async fn of_others(world: &World, kind: Kind, lasts: Duration, random: u64) {
    match kind {
        Kind::Cut { host, side } => weather(world, host, side, Weather::Cut, lasts).await,
        Kind::Slow { host, side } => {
            let by = Duration::from_millis(200 + random % 1_300);
            weather(world, host, side, Weather::Slow(by), lasts).await;
        }
        Kind::Stall { host, side } => weather(world, host, side, Weather::Stalled, lasts).await,
        Kind::Refuse { site } => {
            world.refuses[site].store(true, Ordering::Relaxed);
            sleep(lasts).await;
            world.refuses[site].store(false, Ordering::Relaxed);
        }
        Kind::Emulator { site } => {
            let _turn = world.emulators[site].restarting.lock().await;
            world.emulators[site].down().await;
            sleep(lasts.min(Duration::from_secs(3))).await;
            world.emulators[site].up().await;
        }
        Kind::KillWorker { queue } => {
            let worker = &world.workers[queue];
            let mut child = worker.child.lock().await;
            worker.kill(&mut child).await;
            sleep(lasts).await;
            worker.up(&mut child).await;
        }
        Kind::FreezeWorker { queue } => {
            let child = world.workers[queue].child.lock().await;
            WorkerProcess::signal(child.as_ref(), Signal::STOP);
            sleep(lasts).await;
            WorkerProcess::signal(child.as_ref(), Signal::CONT);
        }
        Kind::FullDisk => fill(world, lasts).await,
        Kind::HostilePolicy { queue, which } => {
            let path = world.policy_file(queue);
            let what = hostile::policy(&path, which);
            world.note(format!("{} is {what}", path.display()));
            sleep(lasts.max(Duration::from_secs(4))).await;
            let good = waits(1_500 + u32::try_from(random % 5).unwrap() * 500);
            let _ = std::fs::remove_file(&path);
            replace(&path, good.as_bytes());
        }
        Kind::Swap { queue, which } => {
            let delay = 1_000 + u32::try_from(which).unwrap() * 200;
            replace(&world.policy_file(queue), waits(delay).as_bytes());
        }
        Kind::Wake { queue } => operators::wake(world, queue).await,
        Kind::Pause { queue } => operators::pause(world, queue, lasts).await,
        Kind::Set { queue } => operators::set(world, queue, lasts).await,
        Kind::Rollback { queue } => operators::rollback(world, queue).await,
        Kind::Reconsider { queue } => operators::reconsider(world, queue).await,
        Kind::Redrive { queue } => operators::redrive(world, queue, random, None, false).await,
        Kind::RedriveKilled { queue, damaged } => {
            let after = Some(lasts / 3);
            operators::redrive(world, queue, random, after, damaged).await;
        }
        Kind::Deliver { queue, damaged } => {
            deliveries::deliver(world, queue, random, lasts / 4, damaged).await;
        }
        _ => {}
    }
}

async fn weather(world: &World, host: usize, side: Side, weather: Weather, lasts: Duration) {
    let host = &world.hosts[host];
    let links: Vec<_> = match side {
        Side::Queue => vec![&host.to_queue],
        Side::Worker => host.to_workers.iter().map(|(_, link)| link).collect(),
    };
    for link in &links {
        link.set(weather);
    }
    sleep(lasts).await;
    for link in &links {
        link.set(Weather::Fair);
    }
}

/// Fills the small disk, and makes room again.
async fn fill(world: &World, lasts: Duration) {
    let file = world.small_disk.as_ref().unwrap().join("filling");
    let of = format!("of={}", file.display());
    // It ends when there is no room.
    let full = Command::new("dd")
        .args(["if=/dev/zero", &of, "bs=4k"])
        .output();
    drop(full);
    sleep(lasts).await;
    let _ = std::fs::remove_file(file);
}
