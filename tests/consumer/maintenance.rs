//! Maintenance windows of the configuration: real hosts that start in the middle of one.

use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::worker::{Worker, numbered};
use jiff::tz::TimeZone;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a configuration whose queue is in a maintenance window since half an hour, for a whole one.
fn folder(queues: &Queues, worker: &Worker) -> TempDir {
    let half_an_hour = jiff::SignedDuration::from_mins(30);
    let now = jiff::Timestamp::from_millisecond(clock::now().0.try_into().unwrap()).unwrap();
    let begins = (now - half_an_hour).to_zoned(TimeZone::UTC);
    let config = format!(
        r#"
        endpoint-url = "{}"
        admin = "127.0.0.1:0"
        metrics = "127.0.0.1:0"
        [policies]
        cache = "cache"
        [queues.orders]
        url = "{}"
        dead-letter-queue = "{}"
        handler = {{ http = "{}" }}
        grace = "2s"
        pause = [
            {{ at = "{} {} * * *", zone = "UTC", for = "1h", why = "inventory" }},
            {{ at = "0 0 29 2 *", zone = "Europe/Berlin", for = "1m" }},
        ]
        "#,
        queues.endpoint,
        queues.url,
        queues.dead_letters,
        worker.url,
        begins.minute(),
        begins.hour(),
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("backstop.toml"), config).unwrap();
    folder
}

async fn start(folder: &TempDir) -> Running {
    let mut command = command(&["run", "--json", "--config", "backstop.toml"]);
    command.current_dir(folder);
    Running::start_command(command).await
}

/// What a command that succeeds prints about the host of this folder.
async fn said(folder: &TempDir, arguments: &[&str]) -> String {
    let mut command = command(arguments);
    command.current_dir(folder).env_remove("BACKSTOP_CACHE");
    let output = command.output().await.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

#[tokio::test]
async fn a_host_that_starts_in_a_window_is_paused_and_a_resume_ends_this_window() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|_| 200).await;
    let folder = folder(&queues, &worker);
    queues.send(numbered("fine", 5)).await;
    let running = start(&folder).await;
    running
        .logged("a maintenance window of the configuration is open")
        .await;
    let status = said(&folder, &["status"]).await;
    for part in [
        "is paused until",
        "; begun 3",
        "by the configuration: inventory",
    ] {
        assert!(status.contains(part), "{part} is not in:\n{status}");
    }
    let ready = reqwest::get(format!("{}/readyz", running.admin()))
        .await
        .unwrap();
    assert_eq!(ready.status().as_u16(), 200);
    let ready = ready.text().await.unwrap();
    assert!(ready.contains("by the configuration: inventory"), "{ready}");
    let scrape = Scrape::of(&running.metrics()).await;
    assert_eq!(scrape.sum("backstop_paused", &[]), 1.0);
    // A pause that is shorter changes nothing, and leaves nothing behind.
    said(&folder, &["pause", "orders", "--for", "1s"]).await;
    running
        .logged("the pause is over, and a maintenance window goes on")
        .await;
    assert_eq!((worker.attempts().len(), queues.held().await), (0, 5));

    let resumed = said(&folder, &["resume", "orders"]).await;
    assert!(resumed.contains("by the configuration"), "{resumed}");
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let status: Value = serde_json::from_str(&said(&folder, &["status", "--json"]).await).unwrap();
    assert_eq!(status["queues"][0]["serving"]["paused"], Value::Null);
    let scrape = Scrape::of(&running.metrics()).await;
    assert_eq!(scrape.sum("backstop_paused", &[]), 0.0);
    running.stop().await;

    // A new host knows of the window, and not of the resume.
    queues.send(numbered("fine", 1)).await;
    let running = start(&folder).await;
    running
        .logged("a maintenance window of the configuration is open")
        .await;
    let (code, counts) = running.stop().await;
    assert_eq!((code, counts[0]["received"].as_u64()), (0, Some(0)));
    assert_eq!(queues.held().await, 1);
}
