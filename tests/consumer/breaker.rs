//! What is behind the worker is down, for all messages or for a tenant, as failures show or as the policy says: nothing is attempted but probes, nothing dies of it, and everything comes back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, read_records, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::toolchain::Author;
use backstop_tests::worker::Worker;
use serde_json::Value;
use tokio::time::Instant;

/// A host with a breaker, and a worker whose tenants are down while the test says so.
struct World {
    running: Running,
    worker: Worker,
    queues: Queues,
    folder: tempfile::TempDir,
}

/// The tenant of a message of the tests.
fn tenant(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    body["tenant"].as_str().unwrap().to_owned()
}

impl World {
    /// A message may fail five times. Without a breaker, an outage of seconds would be the end of all.
    async fn start(breaker: &str, is_down: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let policy = "policy = \"linear\"\nsettings = { base = \"1s\" }";
        let breaker = format!("[queues.orders.breaker]\n{breaker}");
        Self::with(policy, &breaker, is_down).await
    }

    /// With this policy and this table of the breaker, or none.
    async fn with(
        policy: &str,
        breaker: &str,
        is_down: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[]).await;
        let down = move |body: &str| is_down(&tenant(body));
        let worker = Worker::answering(move |it| if down(&it.body) { 503 } else { 200 }).await;
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "endpoint-url = {:?}\n[decisions]\nrecord = \"decisions.jsonl\"\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {{ http = {:?} }}\n{policy}\nmax-attempts = 6\ngrace = \"2s\"\nmax-in-flight = 20\n{breaker}\n",
            queues.endpoint, queues.url, queues.dead_letters, worker.url
        );
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, config).unwrap();
        let arguments = ["run", "--json", "--config", path.to_str().unwrap()];
        let running = Running::start_command(command(&arguments)).await;
        Self {
            running,
            worker,
            queues,
            folder,
        }
    }

    async fn send(&self, tenant: &str, count: usize) {
        let bodies = (0..count).map(|number| format!(r#"{{"tenant":"{tenant}","n":{number}}}"#));
        self.queues.send(bodies).await;
    }

    /// How often the worker was asked for this tenant.
    fn attempts(&self, of: &str) -> usize {
        let attempts = self.worker.attempts();
        attempts.iter().filter(|it| tenant(&it.body) == of).count()
    }

    async fn status(&self) -> String {
        let config = self.folder.path().join("backstop.toml");
        let output = command(&["status", "--config", config.to_str().unwrap()]);
        text(&{ output }.output().await.unwrap().stdout)
    }
}

#[tokio::test]
async fn an_outage_behind_the_worker_costs_a_queue_few_attempts_and_no_message() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let breaker = "by = \"queue\"\nminimum = 10\nafter = \"500ms\"\nlongest-pause = \"2s\"";
    let world = World::start(breaker, move |_| down.load(Relaxed)).await;
    world.send("a", 200).await;
    world
        .running
        .logged("what is behind the worker is down")
        .await;
    assert!(
        world
            .status()
            .await
            .contains("the whole queue: the breaker is")
    );
    let before = world.attempts("a");
    tokio::time::sleep(Duration::from_secs(6)).await;
    // A probe after a second or two, again and again.
    let probes = world.attempts("a") - before;
    assert!((1..=40).contains(&probes), "{probes} attempts in 6 s");
    is_down.store(false, Relaxed);
    eventually("the queue is empty", || async {
        world.queues.held().await == 0
    })
    .await;
    world.running.logged("a probe has succeeded").await;
    let World {
        running,
        queues,
        folder,
        ..
    } = world;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(200), 0)
    );
    let records = read_records(&folder.path().join("decisions.jsonl"));
    assert!(
        records
            .iter()
            .all(|it| it["failure"]["attempt"].as_u64() < Some(6))
    );
}

#[tokio::test]
async fn a_tenant_that_is_down_waits_without_attempts_and_the_others_do_not_notice() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let breaker = "by = \"/tenant\"\nminimum = 5\nafter = \"500ms\"\nlongest-pause = \"2s\"";
    let of_b = move |tenant: &str| tenant == "b" && down.load(Relaxed);
    let world = World::start(breaker, of_b).await;
    world.send("b", 60).await;
    world
        .running
        .logged("what is behind the worker is down")
        .await;
    for tenant in ["a", "c", "d"] {
        world.send(tenant, 30).await;
    }
    eventually("the others are done", || async {
        ["a", "c", "d"].iter().all(|it| world.attempts(it) == 30)
    })
    .await;
    assert!(world.status().await.contains("b: the breaker is"));
    let before = world.attempts("b");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let probes = world.attempts("b") - before;
    // Held back for ten minutes, and yet one after another probes.
    assert!((1..=12).contains(&probes), "{probes} attempts in 6 s");
    is_down.store(false, Relaxed);
    eventually("the queue is empty", || async {
        world.queues.held().await == 0
    })
    .await;
    let World {
        running, queues, ..
    } = world;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(150), 0),
        "{counts:?}"
    );
}

/// A policy in Rust, built by its toolchain: one that fails with HTTP 503 is down for six seconds.
async fn says_down() -> Author {
    let author = Author::new("rust").await;
    let rule =
        "    fn down_for(&self, failure: &Failure, _class: &ErrorClass) -> Option<Duration> {
        (failure.error.status == Some(503)).then_some(Duration::from_secs(6))
    }

    fn judge(";
    author.change("src/lib.rs", "    fn judge(", rule);
    let built = author.backstop(&["policy", "build"]).await;
    assert!(built.status.success(), "{}", text(&built.stderr));
    author
}

#[tokio::test]
async fn a_tenant_that_is_down_as_the_policy_says_is_not_attempted_for_that_time_and_others_are() {
    let author = says_down().await;
    let policy = format!("policy = {:?}", author.component());
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let of_b = move |tenant: &str| tenant == "b" && down.load(Relaxed);
    // Failures alone would not open it.
    let breaker = "[queues.orders.breaker]\nby = \"/tenant\"\nminimum = 1000";
    let world = World::with(&policy, breaker, of_b).await;
    world.send("b", 1).await;
    world.running.logged("down-for=6s").await;
    let began = Instant::now();
    world.send("b", 30).await;
    for tenant in ["a", "c"] {
        world.send(tenant, 30).await;
    }
    eventually("the others are done", || async {
        ["a", "c"].iter().all(|it| world.attempts(it) == 30)
    })
    .await;
    assert!(world.status().await.contains("b: the breaker is"));
    if began.elapsed() < Duration::from_secs(5) {
        assert_eq!(world.attempts("b"), 1);
    }
    // The probe says it again.
    eventually("a probe", || async { world.attempts("b") == 2 }).await;
    assert!(began.elapsed() >= Duration::from_secs(5));
    is_down.store(false, Relaxed);
    eventually("the queue is empty", || async {
        world.queues.held().await == 0
    })
    .await;
    let World {
        running,
        queues,
        folder,
        ..
    } = world;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(91), 0),
        "{counts:?}"
    );
    let records = read_records(&folder.path().join("decisions.jsonl"));
    assert!(!records.is_empty() && records.iter().all(|it| it["down-for"] == 6_000));
}

#[tokio::test]
async fn without_a_breaker_an_outage_that_a_policy_says_is_logged_once_and_changes_nothing() {
    let author = says_down().await;
    let policy = format!(
        "policy = {:?}\nsettings = {{ attempts = 2 }}",
        author.component()
    );
    let world = World::with(&policy, "", |_| true).await;
    world.send("b", 30).await;
    eventually("all are dead letters", || async {
        world.queues.dead().await == 30
    })
    .await;
    assert_eq!(world.attempts("b"), 60);
    let said = "which changes nothing: the queue has no breaker";
    assert_eq!(world.running.log().matches(said).count(), 1);
    world.running.stop().await;
}

#[tokio::test]
async fn half_of_the_requests_that_fail_open_no_breaker() {
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let fails = move |_: &str| turns.fetch_add(1, Relaxed).is_multiple_of(2);
    let breaker = "by = \"queue\"";
    let world = World::start(breaker, fails).await;
    world.send("a", 300).await;
    eventually("the queue is empty", || async {
        world.queues.held().await == 0
    })
    .await;
    assert!(
        !world
            .running
            .log()
            .contains("what is behind the worker is down")
    );
    world.running.stop().await;
}
