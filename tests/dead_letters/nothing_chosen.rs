//! What chooses nothing: a file without ids, and an empty text. No letter is touched, and the command says so.

use std::process::Stdio;

use backstop_tests::backstop::text;
use backstop_tests::emulator::ministack;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::redrive::{command, letter, redrive, resume, runs};
use crate::world::{World, failed, succeeded};

async fn world() -> World {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..5 {
        world.put(letter(&format!("busy-{number}"))).await;
    }
    world
}

#[tokio::test]
async fn a_file_without_ids_chooses_no_letter() {
    let world = world().await;
    let to = ["--to", &world.queues.url];
    for content in ["", "\n \n\r\n", "{\"id\": \"\"}\n"] {
        std::fs::write(world.path("ids.jsonl"), content).unwrap();
        for more in [&[][..], &["--code", "HTTP 503"], &["--dry-run"]] {
            let ids = ["--ids", "ids.jsonl"];
            let output = command(&world, &[&to[..], &ids, more].concat()).output();
            let output = output.await.unwrap();
            let result: Value = serde_json::from_str(&succeeded(&output)).unwrap();
            assert_eq!(result["letters"], 0, "{content:?} {more:?} {result}");
            let said = text(&output.stderr);
            assert!(said.contains("ids.jsonl has no ids: no letter"), "{said}");
        }
    }
    assert_eq!(runs(&world, &[]).await.len(), 0);
    // SQS would move all of them.
    let native = command(&world, &["--native", "--ids", "ids.jsonl"]).output();
    let (code, said) = failed(&native.await.unwrap());
    assert!(code == 2 && said.contains("SQS can't choose"), "{said}");

    let archive = ["--ids", "ids.jsonl", "--to", "archive.jsonl"];
    let archived = world.json("archive", &archive).await;
    assert_eq!(archived["queues"][0]["archived"], 0);
    assert_eq!(
        world.json("archive", &["--all", "--to", "all.jsonl"]).await["queues"][0]["archived"],
        5
    );
    let restored = world.restore(&["all.jsonl", "--ids", "ids.jsonl"]).await;
    assert_eq!(restored["restored"], 0);
    assert_eq!(world.queues.held().await + world.queues.dead().await, 0);
}

#[tokio::test]
async fn the_ids_on_standard_input_are_those_of_every_queue() {
    let (world, other) = (world().await, world().await);
    let config = format!(
        "endpoint-url = {:?}\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {{ default = {:?}, permanent = {:?} }}\nhandler = {{ exec = [\"true\"] }}\n",
        world.queues.endpoint,
        world.queues.url,
        world.queues.dead_letters,
        other.queues.dead_letters
    );
    std::fs::write(world.path("backstop.toml"), config).unwrap();
    let state = world.path("runs");
    let state = ["--state", state.to_str().unwrap(), "--json"];
    let arguments = ["dlq", "redrive", "orders", "--ids", "-"];
    let mut child = world
        .plain(&[&arguments[..], &state].concat())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"no-such-letter\n").await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    let moved: Vec<_> = succeeded(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["moved"].clone())
        .collect();
    assert_eq!(moved, [json!(0), json!(0)]);
    assert_eq!(
        (world.queues.dead().await, other.queues.dead().await),
        (5, 5)
    );
}

#[tokio::test]
async fn an_empty_text_or_number_is_refused() {
    let world = world().await;
    for arguments in [
        &["--text", ""][..],
        &["--code", ""],
        &["--decided-by", "sha256:"],
        &["--id", ""],
        &["--limit", "0"],
    ] {
        let mut output = command(&world, &[&["--to", &world.queues.url], arguments].concat());
        let (code, said) = failed(&output.output().await.unwrap());
        assert_eq!(code, 2, "{arguments:?} {said}");
    }
    // A run that goes on has its own set: filters would be left out without a word.
    let ids = ["--to", &world.queues.url, "--text", "busy-1"];
    let (_, result) = redrive(&world, &ids).await;
    assert_eq!(result["moved"], 1);
    let run = result["run"].as_str().unwrap();
    let state = world.path("runs");
    let state = ["--state", state.to_str().unwrap()];
    let resumed = ["dlq", "redrive", "--resume", run, "--text", "busy-2"];
    let resumed = world.plain(&[&resumed[..], &state].concat()).output();
    assert_eq!(failed(&resumed.await.unwrap()).0, 2);
    assert_eq!(resume(&world, run).await.0, 0);
    assert_eq!(world.queues.dead().await, 4);
}
