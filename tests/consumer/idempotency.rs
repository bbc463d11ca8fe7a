//! `idempotency` of a queue: the work of repeated, resent and interrupted messages is done once.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use backstop::{Backstop, Error};
use backstop_idempotency::{Idempotency, MemoryStore, RecordFormat};
use backstop_tests::aws::{Queues, config, text as attribute};
use backstop_tests::backstop::{Running, run, text as text_of};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::idempotency::Records;
use backstop_tests::worker::Worker;
use serde_json::json;
use tempfile::TempDir;

struct World {
    queues: Queues,
    table: Records,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Records::create(&ministack().endpoint).await).await
    }

    async fn with(table: Records) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("envelope-key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        Self {
            queues: Queues::standard(&table.endpoint, &[]).await,
            table,
            folder,
        }
    }

    /// A configuration with this handler and these settings of `idempotency`.
    fn config(&self, handler: &str, idempotency: &str, more: &str) -> PathBuf {
        let path = self.folder.path().join("backstop.toml");
        let Queues {
            endpoint,
            url,
            dead_letters,
            ..
        } = &self.queues;
        let table = &self.table.table;
        let text = format!(
            "endpoint-url = \"{endpoint}\"\n[queues.orders]\nurl = \"{url}\"\ndead-letter-queue = \"{dead_letters}\"\nhandler = {handler}\nsettings = {{ base = \"100ms\", cap = \"1s\" }}\ngrace = \"2s\"\nidempotency = {{ table = \"{table}\"{idempotency} }}\n{more}\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn start(&self, handler: &str, idempotency: &str, more: &str) -> Running {
        let path = self.config(handler, idempotency, more);
        Running::start(&["--config", path.to_str().unwrap()]).await
    }

    /// A handler that notes each message and then takes this long.
    fn noting(&self, seconds: u32) -> String {
        let file = self.folder.path().join("effects");
        format!(
            "{{ exec = [\"sh\", \"-c\", \"cat >> {0}; echo >> {0}; sleep {seconds}\"] }}",
            file.display()
        )
    }

    fn effects(&self) -> Vec<String> {
        let file = self.folder.path().join("effects");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn is_empty(&self) {
        eventually("the queue is empty", || async {
            self.queues.held().await == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_message_that_was_sent_twice_is_handled_once() {
    let world = World::new().await;
    let worker = Worker::answering(|_| 200).await;
    let order = |id: u32, copy: u32| json!({"order": {"id": id}, "copy": copy}).to_string();
    let orders = (0..20).flat_map(|id| [order(id, 1), order(id, 2)]);
    world.queues.send(orders).await;
    let handler = format!("{{ http = \"{}\" }}", worker.url);
    let running = world
        .start(&handler, ", key = \"/order/id\", lease = \"2s\"", "")
        .await;
    world.is_empty().await;
    // Each once more, when its first is long done; by JMESPath the key is the same.
    running.stop().await;
    world.queues.send((0..20).map(|id| order(id, 3))).await;
    let running = world.start(&handler, ", key = \"order.id\"", "").await;
    world.is_empty().await;
    running.stop().await;
    let attempts = worker.attempts();
    let mut handled: Vec<_> = attempts.iter().map(|it| it.body.clone()).collect();
    assert_eq!(handled.len(), 20, "{handled:?}");
    assert!(handled.iter().all(|body| !body.contains("\"copy\":3")));
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 20);
    assert_eq!(world.table.count().await["COMPLETED"], 20);
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn a_resent_message_keeps_the_id_that_is_its_key() {
    let world = World::new().await;
    let worker = Worker::answering(|attempt| {
        if attempt.headers.contains_key("x-first") {
            200
        } else {
            503
        }
    })
    .await;
    let sent = world
        .queues
        .client
        .send_message()
        .queue_url(&world.queues.url);
    let sent = sent.message_body("an order").send().await.unwrap();
    let id = sent.message_id.unwrap();
    let handler = format!("{{ http = \"{}\" }}", worker.url);
    let resend = "hold = \"resend\"\nenvelope-key-file = \"envelope-key\"";
    let running = world.start(&handler, ", prefix = \"orders\"", resend).await;
    eventually("it was tried again", || async {
        worker.attempts().len() >= 3
    })
    .await;
    running.stop().await;

    // Whatever its id is now, its record has the key of the first.
    let works = Worker::answering(|_| 200).await;
    let handler = format!("{{ http = \"{}\" }}", works.url);
    let running = world.start(&handler, ", prefix = \"orders\"", resend).await;
    world.is_empty().await;
    running.stop().await;
    let keys = Idempotency::builder(MemoryStore::new(RecordFormat::Python), "orders").build();
    let key = keys.unwrap().key_for(&id).unwrap().unwrap();
    let records = world.table.client.scan().table_name(&world.table.table);
    let records = records.send().await.unwrap().items.unwrap();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["id"].as_s().unwrap(), key.as_str());
    assert_eq!(records[0]["status"].as_s().unwrap(), "COMPLETED");
}

/// A host is killed in the middle of the work of `an order`, and another one settles the message. Leases last two seconds.
async fn killed_in_the_middle(world: &World, settings: &str) {
    world.queues.send(["an order".to_owned()]).await;
    let settings = format!(", lease = \"2s\"{settings}");
    let more = "visibility-timeout = \"2s\"";
    let running = world.start(&world.noting(60), &settings, more).await;
    eventually("it has begun", || async { world.effects().len() == 1 }).await;
    running.kill().await;
    let running = world.start(&world.noting(0), &settings, more).await;
    world.is_empty().await;
    running.stop().await;
}

#[tokio::test]
async fn the_work_of_a_killed_host_is_taken_over_after_its_lease() {
    let world = World::new().await;
    killed_in_the_middle(&world, "").await;
    assert_eq!(world.effects(), ["an order", "an order"]);
    assert_eq!(world.table.count().await["COMPLETED"], 1);
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn work_that_may_have_been_done_is_dead_lettered_by_setting() {
    let world = World::new().await;
    killed_in_the_middle(&world, ", on-unknown = \"dead-letter\"").await;
    assert_eq!(world.effects(), ["an order"]);
    let dead = world.queues.take_dead().await;
    let error = attribute(&dead["an order"], "BackstopError").unwrap();
    assert!(error.starts_with("IdempotencyOutcomeUnknown"), "{error}");
}

#[tokio::test]
async fn a_message_in_progress_elsewhere_waits_for_its_owner() {
    let world = World::new().await;
    let order = |copy: u32| json!({"id": 7, "copy": copy}).to_string();
    world.queues.send([order(1)]).await;
    let running = world.start(&world.noting(3), ", key = \"/id\"", "").await;
    eventually("it has begun", || async { world.effects().len() == 1 }).await;
    world.queues.send([order(2)]).await;
    eventually("the second is received", || async {
        world.queues.invisible().await == 2
    })
    .await;
    // Invisible for as long as the lease lasts.
    let second = world.queues.take_left().await;
    assert!(second.is_empty(), "{second:?}");
    eventually("the first is done", || async {
        world.table.count().await.contains_key("COMPLETED")
    })
    .await;
    running.stop().await;
    assert_eq!(world.effects().len(), 1);
}

#[tokio::test]
async fn a_message_in_progress_elsewhere_is_not_given_up_for_its_attempts() {
    let world = World::new().await;
    let url = &world.queues.url;
    let prefix = url.rsplit('/').next().unwrap();
    let owner = Idempotency::builder(world.table.store(RecordFormat::Python), prefix);
    let owner = owner.lease(Duration::from_secs(2)).build().unwrap();
    world.queues.send([json!({"id": 7}).to_string()]).await;
    let running = async {
        eventually("its owner has begun", || async {
            world.table.count().await.contains_key("INPROGRESS")
        })
        .await;
        let settings = ", key = \"/id\"";
        let limits = "max-attempts = 1\nhold = \"resend\"";
        let running = world.start(&world.noting(0), settings, limits).await;
        world.is_empty().await;
        running.stop().await;
    };
    // For several leases, each of which costs the message a receive.
    let work = || async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        Ok::<_, Error>(())
    };
    let (owned, ()) = tokio::join!(owner.once(&7, work).into_future(), running);
    assert!(!owned.unwrap().repeated);
    assert!(world.effects().is_empty(), "{:?}", world.effects());
    assert_eq!(world.queues.dead().await, 0);
    assert_eq!(world.table.count().await["COMPLETED"], 1);
}

/// A function in Lambda has the same prefix, and its responses are results.
#[tokio::test]
async fn work_that_is_done_is_not_done_again_whatever_its_result_is() {
    let world = World::new().await;
    let prefix = world.queues.url.rsplit('/').next().unwrap();
    let function = Idempotency::builder(world.table.store(RecordFormat::Python), prefix);
    let function = function.build().unwrap();
    let receipt = || async { Ok::<_, Error>(json!({"receipt": 1})) };
    function.once(&1, receipt).await.unwrap();
    let large = || async { Ok::<_, Error>("x".repeat(500_000)) };
    function.once(&2, large).await.unwrap_err();
    let bodies = [1, 2].map(|id| json!({"id": id}).to_string());
    world.queues.send(bodies).await;
    let running = world.start(&world.noting(0), ", key = \"/id\"", "").await;
    world.is_empty().await;
    running.stop().await;
    assert!(world.effects().is_empty(), "{:?}", world.effects());
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn messages_without_a_key_are_dead_lettered_or_handled_by_setting() {
    let world = World::new().await;
    let bodies = ["not JSON", "{}"].map(str::to_owned);
    world.queues.send(bodies.clone()).await;
    let running = world.start(&world.noting(0), ", key = \"/id\"", "").await;
    world.is_empty().await;
    running.stop().await;
    let dead = world.queues.take_dead().await;
    for body in &bodies {
        let error = attribute(&dead[body], "BackstopError").unwrap();
        assert!(error.starts_with("IdempotencyKeyMissing"), "{error}");
    }
    assert!(world.effects().is_empty());

    world.queues.send(bodies.clone()).await;
    let lenient = ", key = \"/id\", on-missing-key = \"not-idempotent\"";
    let running = world.start(&world.noting(0), lenient, "").await;
    world.is_empty().await;
    running.stop().await;
    assert_eq!(world.effects().len(), 2);
    assert!(world.table.count().await.is_empty());
}

#[tokio::test]
async fn a_table_is_checked_before_the_first_message() {
    let world = World::new().await;
    let handler = world.noting(0);
    let doctor = async |path: &std::path::Path| {
        let output = run(&["doctor", "--config", path.to_str().unwrap()]).await;
        text_of(&output.stdout)
    };
    let good = world.config(&handler, "", "");
    let shown = doctor(&good).await;
    assert!(
        shown.contains("enable its time to live on the attribute `expiration`"),
        "{shown}"
    );
    let specification = TimeToLiveSpecification::builder().enabled(true);
    let specification = specification.attribute_name("expiration").build().unwrap();
    let change = world.table.client.update_time_to_live();
    let change = change.table_name(&world.table.table);
    change
        .time_to_live_specification(specification)
        .send()
        .await
        .unwrap();
    let shown = doctor(&good).await;
    assert!(shown.contains("deletes expired ones"), "{shown}");

    let written = std::fs::read_to_string(&good).unwrap();
    let bad = written.replace(&world.table.table, "no-such-table");
    std::fs::write(&good, bad).unwrap();
    let shown = doctor(&good).await;
    assert!(
        shown.contains("the table `no-such-table` does not exist"),
        "{shown}"
    );
    let started = run(&["run", "--config", good.to_str().unwrap()]).await;
    let error = text_of(&started.stderr);
    assert!(
        !started.status.success() && error.contains("`no-such-table` does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn flags_say_it_and_metrics_count_it() {
    let world = World::new().await;
    let order = |id: u32, total: u32| json!({"id": id, "total": total}).to_string();
    let bodies = [order(1, 5), order(1, 5), order(1, 6), "no order".to_owned()];
    let table = &world.table.table;
    let effects = world.folder.path().join("effects");
    let script = format!("cat >> {0}; echo >> {0}", effects.display());
    let exec = format!("sh -c '{script}'");
    let running = Running::start(
        &[
            &world.queues.arguments()[..],
            &["--exec", &exec, "--metrics", "127.0.0.1:0"],
            &["--max-in-flight", "1", "--idempotency-table", table],
            &[
                "--idempotency-key",
                "/id",
                "--idempotency-validate",
                "/total",
            ],
            &[
                "--idempotency-lease",
                "2s",
                "--idempotency-on-unknown",
                "dead-letter",
            ],
        ]
        .concat(),
    )
    .await;
    for body in bodies {
        world.queues.send([body]).await;
        world.is_empty().await;
    }
    let scrape = Scrape::of(&running.metrics()).await;
    for (result, expected) in [
        ("fresh", 1.0),
        ("repeated", 1.0),
        ("refused", 2.0),
        ("in-progress", 0.0),
        ("taken-over", 0.0),
        ("store-failed", 0.0),
        ("lease-ended", 0.0),
        ("not-recorded", 0.0),
    ] {
        let labels = [("result", result)];
        let number = scrape.sum("backstop_idempotency_total", &labels);
        assert_eq!(number, expected, "{result}");
        assert!(!scrape.labels("backstop_idempotency_total").is_empty());
    }
    running.stop().await;
    assert_eq!(world.effects(), [order(1, 5)]);
    assert_eq!(world.queues.dead().await, 2);

    let wrong = run(&[
        &["run", "--queue-url", "local:q", "--exec", "true"][..],
        &["--idempotency-table", "t", "--idempotency-lease", "10ms"],
    ]
    .concat())
    .await;
    let error = text_of(&wrong.stderr);
    assert!(
        error.contains("'--idempotency-lease <DURATION>': expected at least 1s"),
        "{error}"
    );
}

#[tokio::test]
async fn a_table_has_a_sort_key_and_names_of_its_own() {
    let table = Records::with_sort_key(&ministack().endpoint).await;
    let world = World::with(table).await;
    world.queues.send([json!({"id": 1}).to_string()]).await;
    let settings = ", key = \"/id\", prefix = \"orders\", attributes = { sort-key = \"sk\", status = \"state\", expiration = \"ttl\" }";
    let running = world.start(&world.noting(0), settings, "").await;
    world.is_empty().await;
    running.stop().await;
    let records = world.table.client.scan().table_name(&world.table.table);
    let records = records.send().await.unwrap().items.unwrap();
    let text = |name: &str| records[0][name].as_s().unwrap().as_str();
    assert_eq!(
        (text("id"), text("state")),
        ("idempotency#orders", "COMPLETED")
    );
    assert!(text("sk").starts_with("orders#"), "{records:?}");
    assert!(records[0]["ttl"].as_n().is_ok(), "{records:?}");

    let wrong = [
        (
            "{ partition = \"p\" }",
            "partition: expected together with `sort-key`",
        ),
        (
            "{ status = \"data\" }",
            "data: expected another name than `data`",
        ),
        (
            "{ owner = \"\" }",
            "owner: expected the name of an attribute",
        ),
    ];
    for (attributes, expected) in wrong {
        let settings = format!(", attributes = {attributes}");
        let path = world.config(&world.noting(0), &settings, "");
        let started = run(&["run", "--config", path.to_str().unwrap()]).await;
        let error = text_of(&started.stderr);
        assert!(
            error.contains(&format!("idempotency.attributes.{expected}")),
            "{error}"
        );
    }
    // The table has a sort key, and the settings say none.
    let path = world.config(&world.noting(0), "", "");
    let started = run(&["run", "--config", path.to_str().unwrap()]).await;
    let error = text_of(&started.stderr);
    assert!(error.contains("with the sort key `sk`"), "{error}");
}

#[tokio::test]
async fn a_program_says_it_with_methods() {
    let world = World::new().await;
    let sdk = config(&world.queues.endpoint).await;
    let connections = std::sync::Arc::new(backstop::Connections::with_sdk(sdk));
    let counts = Backstop::queue("local:orders")
        .messages([r#"{"id": 1}"#, r#"{"id": 1}"#, r#"{"id": 2}"#])
        .idempotency(&world.table.table)
        .idempotency_key("/id")
        .handler(|_| async { Ok::<(), Error>(()) })
        .max_in_flight(1)
        .connections(connections)
        .cache("off")
        .run()
        .await
        .unwrap();
    assert_eq!(
        counts.to_string(),
        "orders: 3 succeeded, 0 retried, 0 dead-lettered"
    );
    assert_eq!(world.table.count().await["COMPLETED"], 2);

    let wrong = Backstop::queue("local:orders")
        .idempotency("table")
        .idempotency_key("order..id")
        .handler(|_| async { Ok::<(), Error>(()) });
    let error = wrong.run().await.unwrap_err().to_string();
    assert!(
        error.contains("idempotency_key of queue `orders`"),
        "{error}"
    );
}
