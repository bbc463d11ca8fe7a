//! `backstop waiting` and `wake` on real hosts and emulators.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, serve, text};
use backstop_tests::emulator::{Emulator, fauxqs, ministack};
use backstop_tests::eventually;
use backstop_tests::worker::{Attempt, Worker};
use futures_util::future::join_all;
use serde_json::Value;
use tempfile::TempDir;

/// The hosts of one machine: they share a cache folder.
pub(crate) struct Machine {
    pub(crate) folder: TempDir,
    pub(crate) queues: Queues,
    pub(crate) name: String,
    pub(crate) worker: Worker,
}

impl Machine {
    /// The worker fails each first attempt: of every fourth body with 503, of the others with 500.
    pub(crate) async fn new(emulator: &Emulator) -> Self {
        let queues = Queues::standard(&emulator.endpoint, &[(Q::VisibilityTimeout, "20")]).await;
        let worker =
            Worker::answering(
                |attempt| match (attempt.receive_count, number(attempt) % 4) {
                    (1, 0) => 503,
                    (1, _) => 500,
                    _ => 200,
                },
            );
        Self {
            folder: tempfile::tempdir().unwrap(),
            name: queues.url.rsplit('/').next().unwrap().to_owned(),
            queues,
            worker: worker.await,
        }
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) async fn host(&self, more: &[&str]) -> Running {
        let cache = self.at("cache");
        let all = [&["--cache", &cache], more].concat();
        serve(&self.queues, &self.worker, &all).await
    }

    pub(crate) async fn send(&self, count: usize) {
        let part = |first: usize| (first..count).step_by(10).map(|it| it.to_string());
        join_all((0..10).map(|first| self.queues.send(part(first)))).await;
    }

    /// A command for the hosts of this machine: its exit code, its output and its errors.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let cache = self.at("cache");
        run(&[arguments, &["--cache", &cache]].concat()).await
    }

    /// The answers of the hosts.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let (code, printed, error) = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(code, 0, "{error}");
        let lines = printed.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// How many messages wait, by the hosts' count.
    pub(crate) async fn waiting(&self) -> u64 {
        let answers = self.json(&["waiting", &self.name]).await;
        answers
            .iter()
            .map(|it| it["queues"][0]["waiting"].as_u64().unwrap())
            .sum()
    }

    pub(crate) async fn until_waiting(&self, count: u64) {
        let started = clock::instant();
        while self.waiting().await < count {
            assert!(started.elapsed() < Duration::from_secs(300));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// When the attempts at each body were made.
    pub(crate) fn attempts(&self) -> BTreeMap<usize, Vec<Instant>> {
        let mut attempts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for attempt in self.worker.attempts() {
            attempts
                .entry(number(&attempt))
                .or_default()
                .push(attempt.at);
        }
        attempts
    }
}

fn number(attempt: &Attempt) -> usize {
    attempt.body.parse().unwrap()
}

pub(crate) async fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = command(arguments);
    let output = command.env_remove("BACKSTOP_CACHE").output().await.unwrap();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

pub(crate) const LINEAR: [&str; 6] = ["--policy", "linear", "--set", "base=2h", "--set", "cap=9h"];

#[tokio::test]
async fn a_wake_of_5000_of_20000_waiting_messages_wakes_exactly_those_spread_as_asked() {
    let machine = Machine::new(fauxqs()).await;
    machine.send(20_000).await;
    let host = machine.host(&LINEAR).await;
    machine.until_waiting(20_000).await;
    let (_, shown, _) = machine.run(&["waiting", &machine.name]).await;
    for part in [
        "20,000 messages wait",
        "15,000",
        "HTTP 500",
        " 5,000",
        "HTTP 503",
        "due in",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    let asked = clock::instant();
    let wake = [
        "wake",
        &machine.name,
        "--code",
        "HTTP 503",
        "--spread",
        "20s",
    ];
    let woken = machine.json(&wake).await;
    assert_eq!(woken.len(), 1);
    assert_eq!(
        (&woken[0]["matched"], &woken[0]["woken"]),
        (&5_000.into(), &5_000.into())
    );
    assert_eq!(
        (&woken[0]["refused"], &woken[0]["as-soon"]),
        (&0.into(), &0.into())
    );
    eventually("all woken messages have come", || async {
        machine.worker.attempts().len() == 25_000
    })
    .await;
    // They succeed, so none is left to come again.
    eventually("what was woken is deleted", async || {
        machine.queues.held().await == 15_000
    })
    .await;
    let mut seconds = Vec::new();
    for (number, attempts) in machine.attempts() {
        let expected = if number % 4 == 0 { 2 } else { 1 };
        assert_eq!(attempts.len(), expected, "{number}");
        let second = attempts.get(1);
        seconds.extend(second.map(|it| it.saturating_duration_since(asked).as_secs()));
    }
    // 250 in each second, and none before its second. Host and emulator may be late.
    for end in 0..20 {
        let come = seconds.iter().filter(|second| **second < end).count();
        assert!(come as u64 <= 250 * (end + 1), "{come} within {end} s");
    }
    let late = seconds.iter().filter(|second| **second >= 25).count();
    assert!(late < 2_500, "{late} after 25 s");
    assert_eq!(machine.waiting().await, 15_000);
    host.logged("an operator's request was carried out").await;
    host.logged("/v1/wake").await;
    host.kill().await;
}

#[tokio::test]
async fn all_hosts_of_the_machine_are_asked_and_a_restart_forgets_nothing() {
    let machine = Machine::new(ministack()).await;
    let (first, second) = (machine.host(&LINEAR).await, machine.host(&LINEAR).await);
    machine.send(80).await;
    machine.until_waiting(80).await;
    let (_, shown, _) = machine.run(&["waiting", &machine.name]).await;
    assert!(shown.contains("80 messages wait"), "{shown}");
    assert_eq!(
        shown.matches("of what has failed since").count(),
        2,
        "{shown}"
    );

    assert_eq!(first.stop().await.0, 0);
    let restarted = machine.host(&LINEAR).await;
    // One of the two takes over what the first one knew.
    machine.until_waiting(80).await;
    let answers = machine.json(&["waiting", &machine.name]).await;
    let of = |process: u32| {
        let mut answers = answers.iter();
        let answer = answers.find(|it| it["process"] == process).unwrap();
        answer["queues"][0].clone()
    };
    let (old, new) = (of(second.id()), of(restarted.id()));
    for queue in [&old, &new] {
        assert_eq!(
            (&queue["known"], &queue["in-flight"]),
            (&queue["waiting"], &80.into())
        );
    }
    let (_, shown, _) = machine.run(&["waiting", &machine.name]).await;
    for (host, queue) in [(second.id(), &old), (restarted.id(), &new)] {
        let sentence = format!(
            "process {host} remembers {} of what has failed since {}, ",
            queue["waiting"],
            Timestamp(queue["since"].as_u64().unwrap()).rfc3339()
        );
        assert!(
            shown.contains(&sentence),
            "{sentence:?} is not in:\n{shown}"
        );
    }

    // By rate: half a second for what is left.
    let wake = ["wake", &machine.name, "--all", "--rate", "100/s"];
    let woken = machine.json(&wake).await;
    let sum: u64 = woken.iter().map(|it| it["woken"].as_u64().unwrap()).sum();
    assert_eq!((woken.len(), sum), (2, 80));
    eventually("they have come", || async {
        machine.worker.attempts().len() as u64 == 80 + sum
    })
    .await;
    // `why` asks the hosts too, without any record.
    restarted.kill().await;
    second.kill().await;
    let (code, _, error) = machine.run(&["wake", &machine.name, "--all"]).await;
    assert_eq!(code, 5);
    assert!(
        error.contains("no running host uses the cache folder"),
        "{error}"
    );
}

#[tokio::test]
async fn messages_that_are_sent_again_are_announced_and_woken_at_their_hop_by_another_host() {
    let machine = Machine::new(ministack()).await;
    // The queue keeps messages for a minute: hops of 30 s.
    let retention = machine
        .queues
        .client
        .set_queue_attributes()
        .queue_url(&machine.queues.url);
    let retention = retention.attributes(Q::MessageRetentionPeriod, "60");
    retention.send().await.unwrap();
    let resend = [&LINEAR[..], &["--hold", "resend"]].concat();
    let first = machine.host(&resend).await;
    machine.send(8).await;
    machine.until_waiting(8).await;
    let second = machine.host(&resend).await;
    let (_, shown, _) = machine
        .run(&[
            "wake",
            &machine.name,
            "--code",
            "HTTP 503",
            "--spread",
            "0s",
        ])
        .await;
    for part in [
        "0 of 2 matching messages come sooner",
        "2 are held by being sent again, and come when their hop ends, the last at ",
        "a host on another machine may receive those",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    // The host that sent them is gone.
    first.kill().await;
    eventually("the two are attempted again", || async {
        machine.worker.attempts().len() == 10
    })
    .await;
    for (number, attempts) in machine.attempts() {
        assert_eq!(
            attempts.len(),
            if number % 4 == 0 { 2 } else { 1 },
            "{number}"
        );
    }
    let counts = machine.worker.attempts();
    let counts = counts.iter().filter(|it| number(it).is_multiple_of(4));
    let counts: Vec<_> = counts.map(|it| it.receive_count).collect();
    assert_eq!(counts, [1, 1, 2, 2]);
    second.kill().await;
}

#[tokio::test]
async fn a_wake_needs_a_filter_and_a_queue_that_is_served() {
    let machine = Machine::new(ministack()).await;
    let host = machine.host(&LINEAR).await;
    let (code, _, error) = machine.run(&["wake", &machine.name]).await;
    assert_eq!(code, 2);
    // Waking everything is one way among others.
    assert!(
        error.contains("<--code <PATTERN>|--class <PATTERN>|"),
        "{error}"
    );
    let both = ["wake", &machine.name, "--code", "x", "--class", "transient"];
    assert_eq!(machine.run(&both).await.0, 0);
    let (code, _, error) = machine.run(&[&both[..], &["--all"]].concat()).await;
    assert!(
        code == 2 && error.contains("cannot be used with"),
        "{error}"
    );
    for command in [
        &["wake", "other", "--all"][..],
        &["waiting", "other"],
        &["policy", "reconsider", "other"],
    ] {
        let (code, _, error) = machine.run(command).await;
        assert_eq!(code, 5);
        assert!(
            error.contains("no running host serves the queue `other`"),
            "{error}"
        );
    }
    let wake = ["wake", &machine.name, "--code", "\u{1b}[31m"];
    let (code, shown, _) = machine.run(&wake).await;
    assert_eq!(code, 0);
    assert!(shown.contains("no waiting message matches"), "{shown}");
    host.kill().await;
}
