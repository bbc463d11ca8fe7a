//! The incident of `host/docs/operate/incident.md`: its commands run one after another, against a host, its worker and an emulator.

use std::sync::atomic::Ordering;

use backstop_tests::documents::{blocks, compare_block, document};
use backstop_tests::eventually;
use serde_json::json;

use crate::night::{INCIDENT as NAME, Night, OVERLOADED, WELL, same};

/// The ids in the document: of an invalid order, and of one that waits.
const INVALID: &str = "9f0c2d3e-5b7a-4f6e-8d1c-2a3b4c5d6e7f";
const WAITING: &str = "1c2b3a49-8d7e-4c6f-b5a4-9e8d7c6b5a43";

#[tokio::test]
async fn the_commands_of_an_incident_lead_to_an_empty_dead_letter_queue() {
    let page = document(NAME);
    let night = Night::begin().await;
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
            .replace("--watch-for 1m", "--watch-for 3s");
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
