//! The incident of `host/docs/incident.md`: its commands run one after another, against a host, its worker and an emulator.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::body::Body;
use axum::http::Response;
use backstop_tests::backstop::{Running, command, program, text};
use backstop_tests::documents::{blocks, compare_block, document, lasting};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::{Attempt, Worker};
use serde_json::{Value, json};

use crate::world::World;

const NAME: &str = "host/docs/incident.md";

/// The ids in the document: of an invalid order, and of one that waits.
const INVALID: &str = "9f0c2d3e-5b7a-4f6e-8d1c-2a3b4c5d6e7f";
const WAITING: &str = "1c2b3a49-8d7e-4c6f-b5a4-9e8d7c6b5a43";

/// How the payment provider does.
const FAILING: u8 = 0;
const OVERLOADED: u8 = 1;
const WELL: u8 = 2;

fn answer(attempt: &Attempt, provider: u8) -> Response<Body> {
    let order: Value = serde_json::from_str(&attempt.body).unwrap();
    let response = Response::builder();
    let response = match provider {
        _ if order["customer"].is_null() => response.status(422),
        FAILING => response.status(503),
        OVERLOADED => response.status(503).header("retry-after", "900"),
        _ => response.status(200),
    };
    response.body(Body::empty()).unwrap()
}

/// A queue with its host, on a machine of its own.
struct Night {
    world: World,
    provider: Arc<AtomicU8>,
    worker: Worker,
    host: Running,
}

impl Night {
    async fn begin(document: &str) -> Self {
        let world = World::standard(&ministack().endpoint).await;
        let provider = Arc::new(AtomicU8::new(FAILING));
        let shared = Arc::clone(&provider);
        let worker = Worker::start(move |attempt| answer(attempt, shared.load(Ordering::SeqCst)));
        let worker = worker.await;
        let queues = &world.queues;
        let url =
            |name: &str| format!("\"https://sqs.eu-west-1.amazonaws.com/123456789012/{name}\"");
        let config = blocks(document, "toml")[0]
            .replace(&url("orders-dead"), &format!("{:?}", queues.dead_letters))
            .replace(&url("orders"), &format!("{:?}", queues.url))
            .replace("http://127.0.0.1:8080/", &worker.url);
        let config = format!("endpoint-url = {:?}\n\n{config}", queues.endpoint);
        std::fs::write(world.path("backstop.toml"), config).unwrap();
        let mut host = command(&["run", "--json", "--config", "backstop.toml"]);
        host.current_dir(world.folder.path());
        host.env("BACKSTOP_CACHE", world.path("cache"));
        Self {
            host: Running::start_command(host).await,
            world,
            provider,
            worker,
        }
    }

    async fn send(&self, numbers: std::ops::Range<u32>, has_customer: bool) {
        let order = |number: u32| match has_customer {
            true => json!({"order": number, "customer": format!("c-{}", number % 3)}),
            false => json!({"order": number}),
        };
        let bodies = numbers.map(|number| order(number).to_string());
        self.world.queues.send(bodies).await;
    }

    /// Runs a block of the document as its reader would. It has to succeed.
    async fn run(&self, block: &str) -> String {
        let ours = program("backstop").parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(ours).chain(std::env::split_paths(&path));
        let folder = self.world.folder.path();
        let output = tokio::process::Command::new("sh")
            .args(["-ec", block])
            .current_dir(folder)
            .envs(backstop_tests::aws::CREDENTIALS)
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("BACKSTOP_CACHE", folder.join("cache"))
            .env("XDG_STATE_HOME", folder.join("state"))
            .env("NO_COLOR", "1")
            .output()
            .await
            .unwrap();
        let (shown, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{block}\n{shown}{errors}");
        shown
    }

    /// What a command of `backstop` prints with `--json`, about its one queue.
    async fn json(&self, arguments: &str) -> Value {
        let shown = self.run(&format!("backstop {arguments} --json")).await;
        let answer: Value = serde_json::from_str(&shown).unwrap();
        answer["queues"][0].clone()
    }

    /// How many messages wait.
    async fn waiting(&self) -> Value {
        self.json("waiting orders").await["waiting"].clone()
    }

    /// The id of one of the messages or letters of the largest group.
    async fn sample(&self, arguments: &str) -> String {
        let id = &self.json(arguments).await["groups"][0]["samples"][0];
        id.as_str().unwrap().to_owned()
    }
}

/// The lasting words of an output: times, which may be one or a range, and the bars of a histogram differ between runs.
fn same(output: &str) -> String {
    let lasting = lasting(output)
        .replace("0 ago to 0 ago", "0 ago")
        .replace("0 to 0", "0");
    let lines = lasting.lines().filter(|line| !line.starts_with("due in "));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_commands_of_an_incident_lead_to_an_empty_dead_letter_queue() {
    let page = document(NAME);
    let night = Night::begin(&page).await;
    // The first orders use up their attempts; the invalid ones are given up at once.
    night.send(0..7, true).await;
    night.send(7..11, false).await;
    let queues = &night.world.queues;
    eventually("11 letters", async || queues.dead().await == 11).await;
    night.provider.store(OVERLOADED, Ordering::SeqCst);
    night.send(11..41, true).await;
    eventually("30 messages wait", async || night.waiting().await == 30).await;

    let ids = [
        (
            INVALID,
            night.sample("dlq list orders --class permanent").await,
        ),
        (WAITING, night.sample("waiting orders").await),
    ];
    let mut outputs = Vec::new();
    for block in blocks(&page, "sh") {
        let mut block = block
            .replace("--spread 5m", "--spread 3s")
            .replace("--watch 1m", "--watch 3s");
        for (written, actual) in &ids {
            block = block.replace(written, actual);
        }
        if block.contains("wake ") && !block.contains("--dry-run") {
            night.provider.store(WELL, Ordering::SeqCst);
        }
        if block.contains("triage ") {
            eventually("what waited is done", async || night.waiting().await == 0).await;
        }
        outputs.push(night.run(&block).await);
    }
    assert_eq!(outputs.len(), 11);
    assert_eq!(queues.dead().await, 0);
    assert_eq!(queues.held().await, 0);
    // Each valid order succeeded once.
    let archived = std::fs::read_to_string(night.world.path("invalid-orders.jsonl")).unwrap();
    assert_eq!(archived.lines().count(), 4);
    let attempts = night.worker.attempts();
    assert!(
        attempts.len() < 37 + 30 + 4 + 7 * 3 + 5,
        "{}",
        attempts.len()
    );

    let as_in_the_document = |output: &str| {
        let of = |name: &str| format!("https://sqs.eu-west-1.amazonaws.com/123456789012/{name}");
        let output = output.replace(&queues.dead_letters, &of("orders-dead"));
        let output = output.replace(&queues.url, &of("orders"));
        ids.iter().fold(output, |output, (written, actual)| {
            output.replace(actual, written)
        })
    };
    let shown = blocks(&page, "text");
    let numbers = [0, 1, 5, 7, 10];
    for (shown, number) in shown.iter().zip(numbers) {
        compare_block(NAME, shown, &as_in_the_document(&outputs[number]), same);
    }
    let (code, counts) = night.host.stop().await;
    assert_eq!(
        (code, &counts[0]["succeeded"]),
        (0, &json!(37)),
        "{counts:?}"
    );
}
