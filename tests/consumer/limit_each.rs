//! Limits for each key: a tenant with many messages keeps to its share, the others do not wait for it, and no message pays for it with an attempt.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, read_records, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// What the worker has seen of one tenant.
#[derive(Debug, Clone, Default)]
struct Seen {
    at_once: usize,
    most_at_once: usize,
    began: Vec<Instant>,
    /// The time of all attempts together.
    busy: Duration,
}

/// A worker that takes some time for each message. It answers 503 to the first attempt of a tenant called `failing`.
#[derive(Clone)]
struct Shop {
    takes: Duration,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

impl Shop {
    async fn start(takes: Duration) -> (Self, String) {
        let shop = Self {
            takes,
            seen: Arc::default(),
        };
        let serving = shop.clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().route("/", post(move |body: String| serving.serve(body)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (shop, url)
    }

    async fn serve(self, body: String) -> StatusCode {
        let tenant = tenant(&body);
        let is_first = {
            let mut seen = self.seen.lock().unwrap();
            let seen = seen.entry(tenant.clone()).or_default();
            seen.at_once += 1;
            seen.most_at_once = seen.most_at_once.max(seen.at_once);
            seen.began.push(Instant::now());
            seen.began.len() == 1
        };
        let began = Instant::now();
        sleep(self.takes).await;
        {
            let mut seen = self.seen.lock().unwrap();
            let seen = seen.get_mut(&tenant).unwrap();
            seen.at_once -= 1;
            seen.busy += began.elapsed();
        }
        if is_first && tenant == "failing" {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::OK
        }
    }

    fn of(&self, tenant: &str) -> Seen {
        let seen = self.seen.lock().unwrap();
        seen.get(tenant).cloned().unwrap_or_default()
    }
}

fn tenant(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    body["tenant"].as_str().unwrap_or("none").to_owned()
}

struct World {
    running: Running,
    queues: Queues,
    folder: TempDir,
}

impl World {
    async fn start(queues: Queues, url: &str, limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "endpoint-url = {:?}\n[decisions]\nrecord = \"decisions.jsonl\"\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {{ http = {url:?} }}\nsettings = {{ base = \"1s\", cap = \"2s\" }}\nmax-in-flight = 100\ngrace = \"2s\"\nlimit-each = {{ by = \"/tenant\", {limits} }}\n",
            queues.endpoint, queues.url, queues.dead_letters
        );
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, config).unwrap();
        let run = ["run", "--json", "--config", path.to_str().unwrap()];
        let running = Running::start_command(command(&run)).await;
        Self {
            running,
            queues,
            folder,
        }
    }

    /// What a command for this host prints, and its exit code.
    async fn said(&self, arguments: &[&str]) -> (i32, String) {
        let config = self.folder.path().join("backstop.toml");
        let own = ["--config", config.to_str().unwrap()];
        let output = command(&[arguments, &own].concat()).output().await.unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.code().unwrap(), said)
    }

    async fn emptied(&self) {
        eventually("the queue is empty", async || self.queues.held().await == 0).await;
    }

    /// Stops the host. Nothing has died, and these failures are all that were decided about, each with its first attempt.
    async fn ended_well(self, messages: u64, failures: usize) {
        let (_, counts) = self.running.stop().await;
        assert_eq!(
            counts[0]["succeeded"].as_u64(),
            Some(messages),
            "{counts:?}"
        );
        assert_eq!(self.queues.dead().await, 0);
        let records = read_records(&self.folder.path().join("decisions.jsonl"));
        assert_eq!(records.len(), failures, "{records:?}");
        for record in records {
            assert_eq!(record["failure"]["attempt"], 1, "{record}");
        }
    }
}

async fn send(queues: &Queues, tenant: &str, count: usize) {
    let bodies = (0..count).map(|it| format!(r#"{{"tenant":{tenant:?},"n":{it}}}"#));
    queues.send(bodies).await;
}

#[tokio::test]
async fn a_tenant_with_many_messages_keeps_to_its_rate_and_the_others_do_not_wait() {
    let (shop, url) = Shop::start(Duration::from_millis(5)).await;
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    send(&queues, "large", 300).await;
    for small in ["a", "failing", "b"] {
        send(&queues, small, 15).await;
    }
    queues.send([r#"{"n":1}"#.to_owned()]).await;
    let began = Instant::now();
    let world = World::start(queues, &url, "rate = \"20/s\"").await;
    eventually("the small tenants are done", async || {
        ["a", "b"].iter().all(|it| shop.of(it).began.len() == 15)
            && shop.of("failing").began.len() == 16
            && shop.of("none").began.len() == 1
    })
    .await;
    let small = began.elapsed();
    assert!(
        shop.of("large").began.len() < 200,
        "{:?}",
        shop.of("large").began.len()
    );
    let (_, status) = world.said(&["status"]).await;
    for part in [
        "of each /tenant any number, and 20/s",
        "at a limit  large: ",
    ] {
        assert!(status.contains(part), "{part} is not in:\n{status}");
    }
    let (_, waiting) = world.said(&["waiting", "orders"]).await;
    assert!(waiting.contains("Limited large"), "{waiting}");
    world.emptied().await;
    let large = shop.of("large").began;
    assert_eq!(large.len(), 300);
    // A second is saved up: never more than 40 in a second, whenever it begins; SQS's own delays make it slower.
    for (first, after) in large.iter().zip(large.iter().skip(41)) {
        assert!(after.duration_since(*first) >= Duration::from_millis(950));
    }
    let took = large[299].duration_since(large[0]).as_secs_f64();
    assert!((13.9..40.0).contains(&took), "{took}");
    println!(
        "the small tenants took {:.1} s, the large one {took:.1} s of the 14.0 that its rate allows",
        small.as_secs_f64()
    );
    world.ended_well(346, 1).await;
}

#[tokio::test]
async fn no_more_attempts_of_a_tenant_are_made_at_once_than_its_limit_until_it_is_raised() {
    let (shop, url) = Shop::start(Duration::from_millis(100)).await;
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    send(&queues, "large", 400).await;
    send(&queues, "a", 10).await;
    let world = World::start(queues, &url, "max-in-flight = 3").await;
    eventually("the small tenant is done", async || {
        shop.of("a").began.len() == 10
    })
    .await;
    assert!(shop.of("large").began.len() < 200);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(shop.of("large").most_at_once, 3);
    let (began, before) = (Instant::now(), shop.of("large").busy);
    sleep(Duration::from_secs(3)).await;
    let busy = (shop.of("large").busy - before).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("{busy:.2} attempts of 3 under way on average");
    assert!(busy > 1.0, "{busy}");

    let (code, said) = world
        .said(&["set", "orders", "each-max-in-flight=12"])
        .await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("of each /tenant at most 12, at any rate"),
        "{said}"
    );
    world.running.logged("a limit was changed").await;
    world.emptied().await;
    let seen = shop.of("large");
    assert!(
        (4..=12).contains(&seen.most_at_once),
        "{}",
        seen.most_at_once
    );
    assert_eq!(seen.began.len(), 400);
    let (code, said) = world
        .said(&["set", "orders", "each-rate=none", "each-max-in-flight=none"])
        .await;
    assert_eq!(code, 0, "{said}");
    world.ended_well(410, 0).await;
}

#[tokio::test]
async fn a_pause_returns_messages_that_wait_for_their_turn_and_a_queue_without_keys_refuses() {
    let (shop, url) = Shop::start(Duration::from_millis(1)).await;
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let world = World::start(queues, &url, "rate = \"2/s\"").await;
    send(&world.queues, "large", 20).await;
    eventually("messages wait", async || {
        let (_, status) = world.said(&["status"]).await;
        status.contains("at a limit  large")
    })
    .await;
    let (code, said) = world.said(&["pause", "orders"]).await;
    assert_eq!(code, 0, "{said}");
    world.running.logged("the queue is paused").await;
    sleep(Duration::from_secs(2)).await;
    let paused_at = shop.of("large").began.len();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.of("large").began.len(), paused_at);
    let (code, said) = world.said(&["resume", "orders"]).await;
    assert_eq!(code, 0, "{said}");
    world.emptied().await;
    world.ended_well(20, 0).await;

    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let world = World::start(queues, &url, "max-in-flight = 5").await;
    let config = world.folder.path().join("backstop.toml");
    let without = std::fs::read_to_string(&config).unwrap();
    let without: Vec<_> = without
        .lines()
        .filter(|it| !it.starts_with("limit-each"))
        .collect();
    std::fs::write(&config, without.join("\n")).unwrap();
    world.running.stop().await;
    let run = ["run", "--json", "--config", config.to_str().unwrap()];
    let running = Running::start_command(command(&run)).await;
    let world = World { running, ..world };
    let (code, said) = world.said(&["set", "orders", "each-rate=5/s"]).await;
    assert_ne!(code, 0);
    assert!(
        said.contains("the messages of `orders` have no keys"),
        "{said}"
    );
    world.running.stop().await;
}
