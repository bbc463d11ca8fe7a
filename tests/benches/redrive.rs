//! What reading and moving dead letters takes, compared with a loop of the SDK that receives, sends and deletes full batches.
//!
//! `make bench` runs it, against fauxqs. Each side has a full queue of its own. The loop keeps no record of what it does: killed, it sends letters twice, and nobody knows which.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, text};
use backstop_tests::emulator::fauxqs;
use futures_util::future::join_all;
use serde_json::Value;
use tests_benches::{Better, Chapter, Figure, Table, Unit};

const LETTERS: usize = 10_000;

/// Batches under way at the same time: as many as `dlq redrive` has.
const LOOPS: usize = 16;

const ROUNDS: usize = 3;

fn main() {
    tokio::runtime::Runtime::new().unwrap().block_on(compare());
}

async fn compare() {
    let mut took: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            bare(&full().await).await,
            listed(&full().await).await,
            redriven(&full().await, &[]).await,
            redriven(
                &full().await,
                &["--ramp", "10,100,all", "--watch-for", "1s"],
            )
            .await,
        ];
        for (took, of_round) in took.iter_mut().zip(round) {
            took.push(of_round.as_secs_f64());
        }
    }
    let mut table = Table::new("10,000 dead letters of 300 bytes, all of them")
        .column("time", Unit::Seconds, Better::Less)
        .because("A redrive reads the queue first, to fix its set, and has each batch in its journal on the disk three times: killed at any moment, it goes on where it was. The loop writes nothing down: killed, it sends letters twice, and nobody knows which. With steps, a redrive waits after each and looks for letters that came back.");
    let [bare, listed, redriven, in_steps] = took.map(|rounds| [Figure::of(rounds)]);
    table.theirs(
        "a bare loop that receives, sends and deletes, 16 at once",
        bare,
    );
    table.ours("backstop dlq list, which only reads", listed);
    table.ours("backstop dlq redrive", redriven);
    table.ours(
        "backstop dlq redrive --ramp 10,100,all --watch-for 1s",
        in_steps,
    );
    let mut chapter = Chapter::new(
        "redrive",
        "Dead letters",
        "Reading and moving dead letters in fauxqs, with the same SDK. Each side has a full queue of its own; three rounds in turns.",
    );
    chapter.add(table);
    chapter.write();
}

/// A queue whose dead-letter queue is full.
async fn full() -> Queues {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let (numbers, queues_of) = (AtomicUsize::new(0), &queues);
    let fill = (0..LOOPS).map(|_| async {
        loop {
            let first = numbers.fetch_add(10, Relaxed);
            if first >= LETTERS {
                return;
            }
            let entries = (first..first + 10).map(|number| {
                SendMessageBatchRequestEntry::builder()
                    .id(number.to_string())
                    .message_body(format!("{number:0300}"))
                    .build()
                    .unwrap()
            });
            let send = queues_of.client.send_message_batch();
            let send = send.queue_url(&queues_of.dead_letters);
            send.set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
        }
    });
    join_all(fill).await;
    queues
}

/// The loop that everybody writes.
async fn bare(queues: &Queues) -> Duration {
    let start: Instant = clock::instant();
    let moved = AtomicUsize::new(0);
    let loops = (0..LOOPS).map(|_| async {
        while moved.load(Relaxed) < LETTERS {
            let receive = queues.client.receive_message();
            let receive = receive.queue_url(&queues.dead_letters);
            let received = receive.max_number_of_messages(10).send().await.unwrap();
            let messages = received.messages.unwrap_or_default();
            if messages.is_empty() {
                continue;
            }
            let entries = messages.iter().enumerate().map(|(id, message)| {
                SendMessageBatchRequestEntry::builder()
                    .id(id.to_string())
                    .message_body(message.body().unwrap())
                    .build()
                    .unwrap()
            });
            let send = queues.client.send_message_batch().queue_url(&queues.url);
            send.set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
            let entries = messages.iter().enumerate().map(|(id, message)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(id.to_string())
                    .receipt_handle(message.receipt_handle().unwrap())
                    .build()
                    .unwrap()
            });
            let delete = queues.client.delete_message_batch();
            let delete = delete.queue_url(&queues.dead_letters);
            delete
                .set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
            moved.fetch_add(messages.len(), Relaxed);
        }
    });
    join_all(loops).await;
    start.elapsed()
}

async fn listed(queues: &Queues) -> Duration {
    let (took, listed) = run(queues, &["list"]).await;
    assert_eq!(listed["queues"][0]["seen"], LETTERS);
    took
}

async fn redriven(queues: &Queues, more: &[&str]) -> Duration {
    let state = tempfile::tempdir().unwrap();
    let to = [
        "--to",
        &queues.url,
        "--state",
        state.path().to_str().unwrap(),
    ];
    let (took, result) = run(queues, &[&["redrive"], &to[..], more].concat()).await;
    assert_eq!(result["moved"], LETTERS, "{result}");
    took
}

/// `backstop dlq` with these arguments, the dead-letter queue and `--json`: how long it took, and its object.
async fn run(queues: &Queues, arguments: &[&str]) -> (Duration, Value) {
    let start: Instant = clock::instant();
    let mut dlq = command(&["dlq"]);
    dlq.args(arguments).arg(&queues.dead_letters);
    dlq.args(["--json", "--endpoint-url", &queues.endpoint]);
    let output = dlq.output().await.unwrap();
    let took = start.elapsed();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (took, serde_json::from_slice(&output.stdout).unwrap())
}
