//! `backstop why` over a whole life: a message that fails on one host, is sent again, fails on another one, is woken, dies, is archived, put back and redriven, and succeeds after a restart; the records of its first host were put aside and compressed meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use backstop_tests::backstop::{Running, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::Worker;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::redrive::redrive;
use crate::world::{World, string, succeeded};

/// The message; all others make the records large.
const ORDER: &str = "order";

struct Life {
    world: World,
    worker: Worker,
    /// What the worker answers to the message.
    answer: Arc<AtomicU16>,
}

impl Life {
    async fn begin() -> Self {
        let answer = Arc::new(AtomicU16::new(500));
        let answered = Arc::clone(&answer);
        let worker = Worker::answering(move |attempt| match attempt.body.as_str() {
            ORDER => answered.load(Ordering::SeqCst),
            _ => 503,
        });
        Self {
            world: World::standard(&ministack().endpoint).await,
            worker: worker.await,
            answer,
        }
    }

    fn answers(&self, status: u16) {
        self.answer.store(status, Ordering::SeqCst);
    }

    fn path(&self, name: &str) -> String {
        self.world.path(name).to_str().unwrap().to_owned()
    }

    /// A host with records of its own, which waits so long and holds messages in this way.
    async fn host(&self, name: &str, base: &str, hold: &str) -> Running {
        let records = if name == "a" { "all" } else { "outcomes" };
        let queues = &self.world.queues;
        let config = format!(
            "endpoint-url = \"{}\"\n\
             decisions = {{ record = \"{name}.jsonl\", records = \"{records}\", rotate-size = \"1MiB\", keep = \"64MiB\" }}\n\
             [queues.orders]\n\
             url = \"{}\"\n\
             dead-letter-queue = \"{}\"\n\
             handler = {{ http = \"{}\" }}\n\
             policy = \"linear\"\n\
             settings = {{ base = \"{base}\", cap = \"9h\" }}\n\
             hold = \"{hold}\"\n",
            queues.endpoint, queues.url, queues.dead_letters, self.worker.url
        );
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, config).unwrap();
        let cache = self.path(&format!("cache-{name}"));
        Running::start(&["--config", &path, "--cache", &cache]).await
    }

    async fn attempts(&self, count: usize) {
        eventually("the attempts", async || {
            self.worker.attempts_of(ORDER) == count
        })
        .await;
    }

    /// Sends a message with an attribute of this size. Returns its id.
    async fn send(&self, body: &str, size: usize) -> String {
        let queues = &self.world.queues;
        let sent = queues.client.send_message().queue_url(&queues.url);
        let sent = match size {
            0 => sent,
            _ => sent.message_attributes("ballast", string(&"x".repeat(size))),
        };
        sent.message_body(body)
            .send()
            .await
            .unwrap()
            .message_id
            .unwrap()
    }

    /// The files of records, those that were put aside first.
    fn records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.world.folder.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_record = |it: &PathBuf| it.to_str().unwrap().contains(".jsonl");
        let is_archive = |it: &PathBuf| it.ends_with("archive.jsonl");
        let mut paths: Vec<_> = paths
            .filter(|it| is_record(it) && !is_archive(it))
            .collect();
        paths.sort();
        paths
    }

    /// What `why` says about an id.
    async fn why(&self, id: &str, more: &[&str]) -> String {
        let (archive, runs, cache) = (
            self.path("archive.jsonl"),
            self.path("runs"),
            self.path("c"),
        );
        let places = ["--archive", &archive, "--runs", &runs, "--cache", &cache];
        let records = self.records();
        let records = records.iter().map(|it| it.to_str().unwrap());
        let all = [&["why", id], &places[..], more].concat();
        let all: Vec<_> = all.into_iter().chain(records).collect();
        let output = self.world.plain(&all).output().await.unwrap();
        succeeded(&output)
    }
}

#[tokio::test]
async fn each_id_of_a_message_leads_to_its_whole_life() {
    let life = Life::begin().await;
    let first = life.send(ORDER, 0).await;
    // Its first host sends it again, and has so much to record that it puts the records aside.
    let host = life.host("a", "10s", "resend").await;
    life.attempts(1).await;
    host.logged(" INFO retry ").await;
    assert_eq!(host.stop().await.0, 0);
    let host = life.host("b", "2h", "visibility").await;
    life.attempts(2).await;
    let cache = life.path("cache-b");
    let waits = async || {
        let all = ["waiting", "orders", "--json", "--cache", &cache];
        let output = life.world.plain(&all).output().await.unwrap();
        let shown: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        shown["queues"][0]["waiting"] == 1
    };
    eventually("it waits", waits).await;
    // As logrotate does: the host begins another file within a second.
    std::fs::rename(life.path("b.jsonl"), life.path("b.jsonl.1")).unwrap();
    sleep(Duration::from_millis(1_100)).await;
    // What comes next is permanent.
    life.answers(400);
    let all = ["wake", "orders", "--all", "--cache", &cache];
    succeeded(&life.world.plain(&all).output().await.unwrap());
    life.attempts(3).await;
    let queues = &life.world.queues;
    eventually("it is dead", async || queues.dead().await == 1).await;
    assert_eq!(host.stop().await.0, 0);
    let lines = |name: &str| {
        let text = std::fs::read_to_string(life.path(name)).unwrap();
        text.lines().count()
    };
    assert_eq!((lines("b.jsonl.1"), lines("b.jsonl")), (1, 3));

    let archive = life.path("archive.jsonl");
    life.world
        .run("archive", &["--to", &archive, "--all"])
        .await;
    let letter = std::fs::read_to_string(&archive).unwrap();
    let letter: Value = serde_json::from_str(&letter).unwrap();
    life.world
        .restore(&[&archive, "--to", &queues.dead_letters])
        .await;
    let (code, run) = redrive(&life.world, &["--why", "the shop is back"]).await;
    assert_eq!((code, &run["moved"]), (0, &json!(1)), "{run}");

    // The first host again, where other messages fail at the same time.
    for _ in 0..80 {
        life.send("ballast", 15_000).await;
    }
    life.answers(200);
    let host = life.host("a", "2h", "visibility").await;
    life.attempts(4).await;
    let is_aside = async || {
        let records = life.records();
        records.iter().any(|it| it.extension().unwrap() == "gz")
    };
    eventually("records are put aside", is_aside).await;
    assert_eq!(host.stop().await.0, 0);

    let shown = life.why(&first, &[]).await;
    let json = life.why(&first, &["--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let steps = json["steps"].as_array().unwrap();
    let events: Vec<_> = steps
        .iter()
        .map(|it| it["event"].as_str().unwrap())
        .collect();
    let expected = [
        "decided",
        "sent-again",
        "decided",
        "woken",
        "decided",
        "dead-lettered",
        "archived",
        "redriven",
        "succeeded",
    ];
    assert_eq!(events, expected, "{shown}");
    let ids: Vec<_> = json["ids"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 5, "{shown}");
    assert_eq!((ids[0], ids[2]), (&json!(first), &letter["id"]), "{shown}");
    for id in &ids {
        assert_eq!(life.why(id.as_str().unwrap(), &[]).await, shown);
    }
    for part in [
        &format!("message {first} of orders\n"),
        "attempt 1  ",
        "sent again  ",
        "attempt 2  ",
        "woken  ",
        "attempt 3  ",
        "died  ",
        "archived  ",
        "redriven  ",
        "the shop is back",
        "succeeded  ",
        ".gz:1\n",
        "It succeeded in attempt 1, received as ",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }

    // A configuration names the file, and so those that were put aside for it.
    let config = life.path("a.toml");
    let all = ["why", &first, "--config", &config, "--json"];
    let output = life.world.plain(&all).output().await.unwrap();
    let own: Value = serde_json::from_str(&succeeded(&output)).unwrap();
    assert_eq!(own["decisions"].as_array().unwrap().len(), 1, "{own}");

    let steps = own["steps"].as_array().unwrap();
    let events: Vec<_> = steps.iter().map(|it| &it["event"]).collect();
    assert_eq!(events, ["decided", "sent-again", "succeeded"], "{own}");
}
