//! Operators: commands as processes, and what they say that they did.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::backstop::command;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::hostile::damage_file;
use crate::lying::Planted;
use crate::plan::{Kind, QUEUES};
use crate::site::{Claim, World};

/// How long a command may take. A redrive waits for letters that others hold.
const LONGEST: Duration = Duration::from_secs(600);

/// Runs a command of an operator for the hosts with this cache, and keeps what it said.
pub(crate) async fn ask(
    world: &World,
    what: &'static str,
    queue: usize,
    cache: &Path,
    arguments: &[&str],
) -> Claim {
    let cache = cache.to_str().unwrap();
    let mut command = command(arguments);
    command.env("BACKSTOP_CACHE", cache);
    let (claim, said) = carry_out(command, what, queue, cache).await;
    let [exit, code] = [claim.exit, i32::from(claim.exit == -1)];
    if code == 1 || said.contains("panicked") {
        world.wrong(format!(
            "`{what}` of {} ended with {exit}: {said}",
            claim.queue
        ));
    }
    // Of a command that fails, the reason is of interest.
    if exit != 0 {
        world.note(format!("{what} {} -> {exit}: {}", claim.queue, said.trim()));
    }
    world.log.lock().unwrap().claims.push(claim.clone());
    claim
}

async fn carry_out(
    mut command: Command,
    what: &'static str,
    queue: usize,
    cache: &str,
) -> (Claim, String) {
    let from = clock::now().0;
    command.stdin(Stdio::null());
    let output = timeout(LONGEST, command.output()).await;
    let (exit, stdout, stderr) = match output {
        Ok(output) => {
            let output = output.unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let code = output.status.code().unwrap_or(-1);
            (code, text(&output.stdout), text(&output.stderr))
        }
        Err(_) => (
            -1,
            String::new(),
            format!("it took longer than {LONGEST:?}"),
        ),
    };
    let answers = stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let claim = Claim {
        from,
        to: clock::now().0,
        what,
        queue: QUEUES[queue].name,
        cache: cache.to_owned(),
        exit,
        answers: answers.collect(),
    };
    (claim, stderr)
}

/// A pause for a time, and its end.
pub(crate) async fn pause(world: &World, queue: usize, lasts: Duration) {
    let name = QUEUES[queue].name;
    for cache in world.caches(queue) {
        ask(
            world,
            "pause",
            queue,
            &cache,
            &["pause", name, "--json", "--why", "chaos"],
        )
        .await;
        if world.has(Planted::UndoesPauses) {
            let mut undo = command(&["resume", name]);
            undo.env("BACKSTOP_CACHE", &cache);
            let _ = undo.output().await;
        }
    }
    sleep(lasts.max(Duration::from_secs(4))).await;
    for cache in world.caches(queue) {
        ask(world, "resume", queue, &cache, &["resume", name, "--json"]).await;
    }
}

/// Resumes a queue until every host says that it is not paused.
pub(crate) async fn resume_for_good(world: &World, queue: usize) {
    let name = QUEUES[queue].name;
    for cache in world.caches(queue) {
        for _ in 0..30 {
            let claim = ask(world, "resume", queue, &cache, &["resume", name, "--json"]).await;
            if claim.exit == 0 {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Another limit, then the old one. What was said is compared with what the host then says of itself.
pub(crate) async fn set(world: &World, queue: usize, lasts: Duration) {
    let name = QUEUES[queue].name;
    for limit in ["max-in-flight=7", "max-in-flight=50"] {
        for cache in world.caches(queue) {
            let claim = ask(world, "set", queue, &cache, &["set", name, limit, "--json"]).await;
            let expected: u64 = limit.rsplit('=').next().unwrap().parse().unwrap();
            for answer in &claim.answers {
                if answer["max-in-flight"] != expected {
                    world.wrong(format!("`set {limit}` of {name} said {answer}"));
                }
            }
        }
        sleep(lasts).await;
    }
}

/// Brings everything that waits back.
pub(crate) async fn wake(world: &World, queue: usize) {
    let name = QUEUES[queue].name;
    for cache in world.caches(queue) {
        let all = ["wake", name, "--all", "--spread", "0s", "--json"];
        let claim = ask(world, "wake", queue, &cache, &all).await;
        for answer in &claim.answers {
            let number = |name: &str| number(answer, name);
            let parts = ["woken", "as-soon", "resent", "refused", "not-reached"];
            let accounted: u64 = parts.map(number).iter().sum();
            if accounted != number("matched") {
                world.wrong(format!("a wake of {name} does not add up: {answer}"));
            }
        }
    }
}

pub(crate) async fn reconsider(world: &World, queue: usize) {
    let name = QUEUES[queue].name;
    for cache in world.caches(queue) {
        let arguments = ["policy", "reconsider", name, "--json"];
        ask(world, "reconsider", queue, &cache, &arguments).await;
    }
}

/// The active version of a queue at each host that answers, by process.
async fn versions(world: &World, queue: usize, cache: &Path) -> Vec<(u64, String)> {
    let claim = ask(
        world,
        "policy status",
        queue,
        cache,
        &["policy", "status", "--json"],
    )
    .await;
    let mut found = Vec::new();
    for host in claim.answers {
        let process = host["process"].as_u64().unwrap_or(0);
        let queues = host["queues"].as_array().cloned().unwrap_or_default();
        let name = QUEUES[queue].name;
        if let Some(of) = queues.iter().find(|it| it["queue"] == name) {
            found.push((process, of["policy"]["live"].to_string()));
        }
    }
    found
}

/// Whether the policy of a queue has changed meanwhile, or shortly before.
fn has_changed(world: &World, queue: usize, from: u64) -> bool {
    let log = world.log.lock().unwrap();
    log.windows.iter().any(|window| {
        let is_of_queue = match window.kind {
            Kind::Swap { queue: of, .. } | Kind::HostilePolicy { queue: of, .. } => of == queue,
            _ => false,
        };
        is_of_queue && window.to.saturating_add(20_000) > from
    })
}

/// A rollback that says that it has happened has another version active than before.
pub(crate) async fn rollback(world: &World, queue: usize) {
    let name = QUEUES[queue].name;
    for cache in world.caches(queue) {
        let before = versions(world, queue, &cache).await;
        let arguments = ["policy", "rollback", name, "--json"];
        let claim = ask(world, "rollback", queue, &cache, &arguments).await;
        if claim.exit != 0 {
            continue;
        }
        let after = versions(world, queue, &cache).await;
        for (process, live) in &after {
            let same = before.iter().any(|it| it == &(*process, live.clone()));
            let answered = claim.answers.iter().any(|it| it["process"] == *process);
            if same && answered && !has_changed(world, queue, claim.from) {
                world.wrong(format!(
                    "a rollback of {name} at {process} is reported, and {live} is active as before"
                ));
            }
        }
    }
}

/// Moves up to 30 letters back. `killed_after` ends the command by kill -9, and the run is resumed.
pub(crate) async fn redrive(
    world: &World,
    queue: usize,
    random: u64,
    killed_after: Option<Duration>,
    damaged: bool,
) {
    let mut random = ChaCha8Rng::seed_from_u64(random);
    let of = &QUEUES[queue];
    let suffix = if of.fifo { ".fifo" } else { "" };
    let dead = format!("{}-dead{suffix}", of.name);
    let letters = world.emulators[of.site].messages(&dead).await;
    let chosen: Vec<_> = letters
        .sample(&mut random, 30)
        .map(|it| it.id.clone())
        .collect();
    if chosen.is_empty() {
        return;
    }
    let runs = world.folder.join(format!("runs-{}", of.name));
    let ids = world.folder.join(format!("ids-{}", of.name));
    std::fs::write(&ids, chosen.join("\n") + "\n").unwrap();
    let emulator = world.emulators[of.site].endpoint();
    let common = [
        "--json",
        "--state",
        runs.to_str().unwrap(),
        "--wait",
        "2s",
        "--visibility-timeout",
        "5s",
    ];
    let start = [
        "dlq",
        "redrive",
        &world.urls[queue].1,
        "--ids",
        ids.to_str().unwrap(),
        "--endpoint-url",
        &emulator,
    ];
    let before = folders(&runs);
    let arguments = [&start[..], &common[..]].concat();
    let Some(after) = killed_after else {
        ask(world, "redrive", queue, &world.folder, &arguments).await;
        return;
    };
    let slow = ["--rate", "10/s"];
    let mut child = command(&[&arguments[..], &slow].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(after).await;
    let _ = child.kill().await;
    let Some(run) = folders(&runs).into_iter().find(|it| !before.contains(it)) else {
        return;
    };
    if damaged && let Some(how) = damage_file(&run.join("journal.jsonl"), &mut random) {
        world.note(format!("the journal of {} is {how}", run.display()));
        std::fs::write(run.join("damaged"), how).unwrap();
    }
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    // The lock of a run that was killed belongs to that run.
    for _ in 0..4 {
        let again = [
            "dlq",
            "redrive",
            "--resume",
            &id,
            "--json",
            "--state",
            runs.to_str().unwrap(),
        ];
        let claim = ask(world, "resume of a redrive", queue, &world.folder, &again).await;
        if claim.exit == 0 || claim.exit == 9 {
            break;
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// The folders of runs.
pub(crate) fn folders(runs: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    entries
        .map(|it| it.path())
        .filter(|it| it.is_dir())
        .collect()
}

/// The counts in an answer.
pub(crate) fn number(answer: &Value, name: &str) -> u64 {
    answer[name].as_u64().unwrap_or(0)
}
