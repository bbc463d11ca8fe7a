//! Letters that fail again: counted, linked, and a reason to stop. The consumer is a real `backstop run` with a real policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use backstop_tests::backstop::{self, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::{Attempt, Worker};
use serde_json::{Value, json};

use crate::redrive::{command, redrive, resume, runs};
use crate::world::World;

/// A consumer's queue with so many letters that a real consumer has dead-lettered, and a worker that answers with the status in the counter.
async fn died(letters: usize) -> (World, Worker, Arc<AtomicU16>) {
    let world = World::standard(&ministack().endpoint).await;
    let status = Arc::new(AtomicU16::new(400));
    let answer = Arc::clone(&status);
    let worker = Worker::answering(move |_| answer.load(Ordering::Relaxed)).await;
    world
        .queues
        .send((0..letters).map(|it| format!("order-{it}")))
        .await;
    let running = backstop::serve(&world.queues, &worker, &[]).await;
    eventually("all are dead", || async {
        world.queues.dead().await == letters
    })
    .await;
    running.stop().await;
    (world, worker, status)
}

/// The body of each dead letter, by id.
async fn bodies(world: &World) -> BTreeMap<String, String> {
    let listed = world.run("list", &["--letters", "--json"]).await;
    let parsed = |lines: &str| -> Vec<Value> {
        let lines = lines.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let listed = parsed(&listed);
    let ids = listed.iter().map(|it| it["id"].as_str().unwrap());
    let arguments: Vec<_> = ids.chain(["--json"]).collect();
    let shown = parsed(&world.run("show", &arguments).await);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    shown
        .iter()
        .map(|it| (text(&it["id"]), text(&it["body"])))
        .collect()
}

#[tokio::test]
async fn a_ramp_stops_on_a_bad_cause_leaves_the_rest_and_goes_on_when_it_is_mended() {
    let (world, worker, status) = died(40).await;
    let before = bodies(&world).await;
    let running = backstop::serve(&world.queues, &worker, &[]).await;
    // Their letters say where they come from. The cause is not mended.
    let ramp = [
        "--ramp",
        "5,10,all",
        "--stop-at",
        "20%",
        "--watch-for",
        "3s",
    ];
    let (code, result) = redrive(&world, &ramp).await;
    assert_eq!(
        (code, &result["outcome"]),
        (9, &json!("stopped")),
        "{result}"
    );
    assert_eq!(
        (result["moved"].as_u64(), result["failed-again"].as_u64()),
        (Some(5), Some(5))
    );
    let why = result["reason"].as_str().unwrap();
    assert!(why.contains("5 of 5 letters failed again"), "{why}");
    assert_eq!(worker.attempts().len(), 45);
    assert_eq!(world.queues.dead().await, 40);
    // Each new letter is linked to the one that was moved.
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    let back = detail["came-back"].as_array().unwrap();
    let ids: BTreeSet<_> = back.iter().map(|it| it["id"].as_str().unwrap()).collect();
    let moved: BTreeSet<_> = back
        .iter()
        .map(|it| it["moved"].as_str().unwrap())
        .collect();
    assert_eq!((ids.len(), moved.len()), (5, 5));
    assert!(ids.is_disjoint(&moved));
    let now = bodies(&world).await;
    assert_eq!((before.len(), now.len()), (40, 40));
    for pair in back {
        let (new, old) = (
            pair["id"].as_str().unwrap(),
            pair["moved"].as_str().unwrap(),
        );
        assert_eq!(now[new], before[old], "{pair}");
    }

    // Mended: the rest of the set is moved, in further steps; what came back stays.
    status.store(200, Ordering::Relaxed);
    let (code, result) = resume(&world, run).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(40)), "{result}");
    eventually("all are handled", || async {
        world.queues.held().await == 0
    })
    .await;
    running.stop().await;
    let left = world.queues.take_dead().await;
    assert_eq!(left.len(), 5);
    let left: BTreeSet<_> = left
        .values()
        .map(|it| it.message_id.as_deref().unwrap())
        .collect();
    assert_eq!(left, ids);
}

#[tokio::test]
async fn a_long_step_stops_on_a_bad_cause_before_its_end() {
    let (world, worker, _) = died(60).await;
    let running = backstop::serve(&world.queues, &worker, &[]).await;
    let slow = ["--ramp", "all", "--rate", "4/s", "--watch-for", "3s"];
    let (code, result) = redrive(&world, &slow).await;
    running.stop().await;
    assert_eq!((code, &result["outcome"]), (9, &json!("stopped")));
    let moved = result["moved"].as_u64().unwrap();
    assert!((8..=30).contains(&moved), "{result}");
    assert_eq!(world.queues.dead().await, 60);
    // The step is not over: it is looked at again at its end.
    let run = result["run"].as_str().unwrap();
    let journal = world.path("runs").join(run).join("journal.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(journal.contains("\"is-early\":true"), "{journal}");
}

#[tokio::test]
async fn attempts_start_again_or_go_on() {
    let (world, worker, status) = died(2).await;
    status.store(503, Ordering::Relaxed);
    let policy = ["--set", "base=1ms", "--max-attempts", "3"];
    let running = backstop::serve(&world.queues, &worker, &policy).await;
    let before = worker.attempts().len();
    let (code, _) = redrive(&world, &[]).await;
    assert_eq!(code, 0);
    // Three attempts each.
    eventually("both are dead again", || async {
        world.queues.dead().await == 2
    })
    .await;
    assert_eq!(worker.attempts().len() - before, 6);
    // The third attempt was the last one: one more, which is the fourth.
    let (code, result) = redrive(&world, &["--keep-attempts"]).await;
    assert_eq!(code, 0);
    eventually("both are dead once more", || async {
        worker.attempts().len() - before == 8 && world.queues.dead().await == 2
    })
    .await;
    running.stop().await;
    // Seen later: the run is over, and its letters came back.
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run, "--check"]).await.remove(0);
    assert_eq!(detail["failed-again"].as_u64(), Some(2), "{detail}");
    let letters = world.json("list", &["--by", "code"]).await;
    assert_eq!(letters["queues"][0]["seen"], 2);
    let letter = world.queues.take_dead().await.into_values().next().unwrap();
    let attempt = backstop_tests::aws::text(&letter, "BackstopAttempt");
    let attributes = letter.message_attributes.as_ref().unwrap();
    let number = attributes["BackstopAttempt"].string_value();
    assert_eq!(attempt.or(number), Some("4"));
}

#[tokio::test]
async fn letters_with_kept_attempts_keep_their_ids_if_the_queues_key_signs_them() {
    let (world, worker, status) = died(2).await;
    let path = world.path("keys");
    std::fs::write(&path, "k".repeat(64)).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let keys = ["--envelope-key-file", path.to_str().unwrap()];
    for (how, expected) in [
        (&[][..], "--keep-attempts"),
        (&["--keep-attempts"], "(umask 077; openssl rand -hex 32"),
    ] {
        let flags = [how, &["--envelope-key-file", "missing"]].concat();
        let mut refused = command(&world, &flags);
        let output = refused.output().await.unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    status.store(200, Ordering::Relaxed);
    let running = backstop::serve(&world.queues, &worker, &keys).await;
    let keep = ["--keep-attempts"];
    let (code, _) = redrive(&world, &[&keep[..], &keys].concat()).await;
    assert_eq!(code, 0);
    eventually("both are attempted again", || async {
        worker.attempts().len() == 4
    })
    .await;
    running.stop().await;
    let attempts = worker.attempts();
    let seen = |attempt: &Attempt| {
        let id = attempt.headers["x-aws-sqsd-msgid"].to_str().unwrap();
        (id.to_owned(), attempt.receive_count)
    };
    let first: BTreeSet<_> = attempts[..2].iter().map(seen).collect();
    let again: BTreeSet<_> = attempts[2..].iter().map(seen).collect();
    let expected = first.into_iter().map(|(id, count)| (id, count + 1));
    assert_eq!(again, expected.collect());
}

#[tokio::test]
async fn letters_that_come_back_to_another_dead_letter_queue_count_too() {
    let (world, worker, _) = died(3).await;
    let other = backstop_tests::aws::Queues::standard(&world.queues.endpoint, &[]).await;
    let config = format!(
        "endpoint-url = \"{}\"\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = {{ permanent = \"{}\", default = \"{}\" }}\nhandler = {{ http = \"{}\" }}\n",
        world.queues.endpoint, world.queues.url, other.url, world.queues.dead_letters, worker.url
    );
    std::fs::write(world.path("backstop.toml"), config).unwrap();
    let path = world.path("backstop.toml");
    let running = backstop::Running::start(&["--config", path.to_str().unwrap()]).await;
    let state = world.path("runs");
    let arguments = [
        "dlq",
        "redrive",
        "orders",
        "--json",
        "--state",
        state.to_str().unwrap(),
        "--watch-for",
        "3s",
        "--stop-at",
        "10%",
    ];
    let output = world.plain(&arguments).output().await.unwrap();
    running.stop().await;
    // The first run is of the queue of permanent failures, which is empty, or of the other.
    let lines: Vec<serde_json::Value> = backstop::text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stopped = lines
        .iter()
        .find(|it| it["moved"].as_u64() == Some(3))
        .unwrap();
    assert_eq!(
        (&stopped["outcome"], stopped["failed-again"].as_u64()),
        (&json!("stopped"), Some(3)),
        "{lines:?}"
    );
    assert_eq!(other.held().await, 3);
}
