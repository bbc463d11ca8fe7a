//! A queue with its host, its worker and a payment provider that fails: the night of `host/docs/operate/incident.md`, for the commands of the documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::body::Body;
use axum::http::Response;
use backstop_tests::backstop::{Running, command};
use backstop_tests::documents::{blocks, document, lasting};
use backstop_tests::emulator::ministack;
use backstop_tests::shell::Shell;
use backstop_tests::worker::{Attempt, Worker};
use serde_json::{Value, json};

use crate::world::World;

/// The document with the configuration.
pub(crate) const INCIDENT: &str = "host/docs/operate/incident.md";

/// The most attempts in it.
const ATTEMPTS: &str = "max-attempts = 3";

/// How the payment provider does.
pub(crate) const FAILING: u8 = 0;
pub(crate) const OVERLOADED: u8 = 1;
pub(crate) const WELL: u8 = 2;

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
pub(crate) struct Night {
    pub(crate) world: World,
    pub(crate) provider: Arc<AtomicU8>,
    pub(crate) worker: Worker,
    pub(crate) host: Running,
}

impl Night {
    /// With the configuration of the incident, and a provider that fails.
    pub(crate) async fn begin() -> Self {
        Self::with_attempts(ATTEMPTS).await
    }

    /// With this setting instead of its `max-attempts`.
    pub(crate) async fn with_attempts(attempts: &str) -> Self {
        let document = &document(INCIDENT);
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
            .replace("http://127.0.0.1:8080/", &worker.url)
            .replace(ATTEMPTS, attempts);
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

    pub(crate) async fn send(&self, numbers: std::ops::Range<u32>, has_customer: bool) {
        let order = |number: u32| {
            if has_customer {
                json!({"order": number, "customer": format!("c-{}", number % 3)})
            } else {
                json!({"order": number})
            }
        };
        let bodies = numbers.map(|number| order(number).to_string());
        self.world.queues.send(bodies).await;
    }

    /// Runs a block of a document as its reader would. It has to succeed. Returns its standard output.
    pub(crate) async fn run(&self, block: &str) -> String {
        let shell = Shell::new(self.world.folder.path()).with_account();
        shell.run(block).await.stdout
    }

    /// What a command of `backstop` prints with `--json`, about its one queue.
    pub(crate) async fn json(&self, arguments: &str) -> Value {
        let shown = self.run(&format!("backstop {arguments} --json")).await;
        let answer: Value = serde_json::from_str(&shown).unwrap();
        answer["queues"][0].clone()
    }

    /// How many messages wait.
    pub(crate) async fn waiting(&self) -> Value {
        self.json("waiting orders").await["waiting"].clone()
    }

    /// The id of one of the messages or letters of the largest group.
    pub(crate) async fn sample(&self, arguments: &str) -> String {
        let id = &self.json(arguments).await["groups"][0]["samples"][0];
        id.as_str().unwrap().to_owned()
    }
}

/// The lasting words of an output: times, which may be one or a range, and the bars of a histogram differ between runs.
pub(crate) fn same(output: &str) -> String {
    let lasting = lasting(output)
        .replace("0 ago to 0 ago", "0 ago")
        .replace("0 to 0", "0");
    let lines = lasting.lines().filter(|line| !line.starts_with("due in "));
    lines.collect::<Vec<_>>().join("\n")
}
