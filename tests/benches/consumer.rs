//! What the consumer costs: API requests for each message, memory at rest.
//!
//! `make bench` runs it, against fauxqs on the loopback address.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::failure::Error;
use backstop_decider::Decider;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{self, Consumer, Options, Summary};
use backstop_queue::{Connections, Message};
use backstop_tests::aws::{self, Queues};
use backstop_tests::backstop::Running;
use backstop_tests::emulator::fauxqs;
use backstop_tests::process::resident_memory;
use backstop_tests_host::builtin;
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio_util::sync::CancellationToken;

const MESSAGES: usize = 10_000;

#[tokio::main]
async fn main() {
    needs_credentials();
    let mut table = Table::new("Requests for each message")
        .column("requests", Unit::Number, Better::Less)
        .column("floor", Unit::Number, None);
    let fine = consume(MESSAGES, |_| async { Ok(()) }).await;
    // A tenth of a receive and of a delete.
    let figures = [fine.requests_per_message, 0.2];
    table.ours("every message succeeds", figures.map(Figure::exact));
    let flaky = consume(MESSAGES, |message: Arc<Message>| async move {
        match message.receive_count.get() {
            1 => Err(Error::new("ECONNRESET", "")),
            _ => Ok(()),
        }
    })
    .await;
    // A tenth of two receives, of a change of visibility and of a delete.
    let figures = [flaky.requests_per_message, 0.4];
    table.ours("every message fails once", figures.map(Figure::exact));
    let mut chapter = Chapter::new(
        "consumer",
        "Requests and memory of the consumer",
        "10,000 messages in fauxqs. A request for ten messages counts as a tenth for each. The floor is full batches of everything. Memory is that of `backstop run` three seconds after its start.",
    );
    chapter.add(table);
    let mut table = Table::new("A host at rest, one queue, full-jitter").column(
        "resident memory",
        Unit::Mebibytes,
        Better::Less,
    );
    table.ours("Backstop", [Figure::exact(resident_at_rest().await)]);
    chapter.add(table);
    chapter.write();
}

/// The library's connections take their credentials from the environment, as the command does.
fn needs_credentials() {
    for (name, _) in aws::CREDENTIALS {
        assert!(
            std::env::var_os(name).is_some(),
            "set {name}=test: the emulator takes any credentials"
        );
    }
}

async fn filled(count: usize) -> Queues {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    queues
        .send((0..count).map(|number| format!("message {number}")))
        .await;
    queues
}

/// Runs a consumer over this many messages, until the last is deleted.
async fn consume<F, W>(count: usize, work: F) -> Summary
where
    F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Error>> + Send + 'static,
{
    let queues = filled(count).await;
    let policy = builtin("linear", [("base", "1s")]);
    let decider = Decider::new("orders", policy, Bounds::default());
    let handler: Arc<dyn Handler> = Arc::new(function(work));
    let connections = Connections::new(Some(queues.endpoint.clone()));
    let (ready, _) = consumer::check(
        &connections,
        &queues.url,
        Some(&queues.dead_letters),
        handler.as_ref(),
        &decider,
        &Bounds::default(),
        &Options::default(),
    )
    .await
    .unwrap();
    let options = Options {
        // Wait for the last poll.
        grace: Duration::from_secs(2),
        ..Options::default()
    };
    let consumer = Consumer::new("orders", ready, handler, decider, options);
    let stats = consumer.stats();
    let stop = CancellationToken::new();
    let run = tokio::spawn(consumer.run(stop.clone()));
    while stats.succeeded.get() < u64::try_from(count).unwrap() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    run.await.unwrap()
}

/// The resident memory of `backstop run` three seconds after it is ready, in MiB.
async fn resident_at_rest() -> f64 {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--http",
        "http://127.0.0.1:1/",
    ];
    let running = Running::start(&arguments).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let memory = resident_memory(running.id());
    running.kill().await;
    memory
}
