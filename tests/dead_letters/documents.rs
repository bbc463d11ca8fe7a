//! The commands of the pages about dead letters and waiting messages, run one after another.

use std::sync::atomic::Ordering;

use backstop_tests::aws::config;
use backstop_tests::documents::{blocks, compare_block, document, top};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::shell::Shell;

use crate::night::{Night, OVERLOADED, WELL, same};
use crate::world::{World, of_backstop};

#[tokio::test]
async fn the_commands_about_redrives_run() {
    let night = Night::begin().await;
    night.send(0..7, true).await;
    let queues = &night.world.queues;
    eventually("7 letters", async || queues.dead().await == 7).await;
    night.provider.store(WELL, Ordering::SeqCst);
    let page = document("host/docs/operate/redrive.md");
    let blocks = blocks(&page, "sh");
    assert_eq!(blocks.len(), 2);
    let shown = night
        .run(&blocks[0].replace("--watch-for 5m", "--watch-for 2s"))
        .await;
    for expected in [
        "7  would be moved",
        "7  letters in the set",
        "7  moved",
        "done: 7 of 7 moved",
        "payment provider is back",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    eventually("all are done", async || queues.held().await == 0).await;
    assert_eq!(queues.dead().await, 0);

    // A run in the bucket, which the page goes on with.
    let endpoint = &queues.endpoint;
    let sdk = aws_sdk_s3::config::Builder::from(&config(endpoint).await)
        .force_path_style(true)
        .build();
    let s3 = aws_sdk_s3::Client::from_conf(sdk);
    s3.create_bucket()
        .bucket("operations")
        .send()
        .await
        .unwrap();
    let of_bucket = format!("export AWS_ENDPOINT_URL={endpoint}\n{}", blocks[1]);
    let (variables, _) = of_bucket.split_once("backstop dlq runs").unwrap();
    let started = night
        .run(&format!(
            "{variables}backstop dlq redrive orders --wait 0s --json"
        ))
        .await;
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    let run = started["run"].as_str().unwrap();
    let shown = night
        .run(&of_bucket.replace("20261122-031500-7f3a", run))
        .await;
    assert!(shown.contains("done: 0 of 0 moved"), "{shown}");
    night.host.stop().await;
}

#[tokio::test]
async fn the_commands_about_waiting_messages_run() {
    // A message that comes at once may fail between two commands, and is woken by each of them.
    let night = Night::with_attempts("max-attempts = 30\ngroup-by = \"/customer\"").await;
    night.provider.store(OVERLOADED, Ordering::SeqCst);
    night.send(0..30, true).await;
    eventually("30 messages wait", async || night.waiting().await == 30).await;
    let id = night.sample("waiting orders").await;
    let page = document("host/docs/operate/waiting.md");
    let mut shown = Vec::new();
    for block in blocks(&page, "sh") {
        let block = block.replace("5fea7756-0ea4-451a-a703-a558b933e274", &id);
        // The customers of the night have numbers.
        let block = block.replace("--group acme", "--group c-1");
        shown.push(night.run(&block).await);
        // What was woken fails again.
        eventually("30 messages wait", async || night.waiting().await == 30).await;
    }
    assert_eq!(shown.len(), 5);
    for (shown, expected) in shown.iter().zip(["30 messages wait", "10", "30", "", &id]) {
        assert!(shown.contains(expected), "{shown}");
    }
    // The page shows another queue than this one; the words of its lines are those of the command.
    let of_page = &blocks(&page, "text")[0];
    for beginning in ["  the queue counts about ", "  waiting ", "  process "] {
        let line = |text: &str| {
            let found = text.lines().find(|line| line.starts_with(beginning));
            let words = found.unwrap_or_else(|| panic!("{beginning:?} is not in:\n{text}"));
            let words = words.split_whitespace();
            let words = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line(of_page), line(&shown[0]));
    }
    assert_eq!(night.world.queues.dead().await, 0);
    night.host.stop().await;
}

#[tokio::test]
async fn the_commands_about_dead_letters_run() {
    let name = "host/docs/operate/dead-letters.md";
    let page = document(name);
    let endpoint = &ministack().endpoint;
    let world = World::standard(endpoint).await;
    let queues = &world.queues;
    for number in 0..60 {
        let body = format!("order-{number}");
        let letter = if number < 40 {
            of_backstop(
                &body,
                "max-attempts of 8 reached: HTTP 503",
                "transient",
                "HTTP 503: busy",
            )
        } else {
            of_backstop(
                &body,
                "permanent: HTTP 404",
                "permanent",
                "HTTP 404: no order",
            )
        };
        world.put(letter).await;
    }
    let config_file = format!(
        "endpoint-url = {endpoint:?}\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {{ exec = [\"true\"] }}\n",
        queues.url, queues.dead_letters
    );
    std::fs::write(world.path("backstop.toml"), config_file).unwrap();
    // The new version of the policy, and the bucket.
    std::fs::copy(
        top().join("host/engine/builtin/full-jitter.wasm"),
        world.path("new.wasm"),
    )
    .unwrap();
    let sdk = config(endpoint).await;
    let sdk = aws_sdk_s3::config::Builder::from(&sdk)
        .force_path_style(true)
        .build();
    let bucket = aws_sdk_s3::Client::from_conf(sdk);
    let bucket = bucket.create_bucket().bucket("acme-dead-letters");
    bucket.send().await.unwrap();
    let shell = Shell::new(world.folder.path())
        .with_account()
        .with("AWS_ENDPOINT_URL", endpoint);

    let shown = &blocks(&page, "text")[0];
    let (command, _) = shown.split_once('\n').unwrap();
    let listed = shell.run(command.trim_start_matches("$ ")).await.stdout;
    let written = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dead";
    let listed = listed.replace(&queues.dead_letters, written);
    compare_block(name, shown, &format!("{command}\n{listed}"), same);

    let blocks = blocks(&page, "sh");
    assert_eq!(blocks.len(), 2);
    let judged = shell.run(&blocks[0]).await;
    assert!(judged.contains("40  would be retried"), "{judged:?}");
    assert!(judged.contains("40  moved"), "{judged:?}");
    let kept = shell.run(&blocks[1]).await;
    assert!(kept.contains("20 letters ("), "{kept:?}");
    assert!(kept.contains("20 letters put back"), "{kept:?}");
    assert_eq!((queues.held().await, queues.dead().await), (40, 20));
}
