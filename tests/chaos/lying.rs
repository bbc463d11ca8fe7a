//! Faults that are planted to check the checker: what a faulty host, worker or queue would do.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use clap::ValueEnum;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::operators;
use crate::site::World;

/// A fault that the checker has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Planted {
    /// A worker answers that some work is done, and has not done it.
    Forgets,
    /// Deletes are answered, and never made.
    SwallowsDeletes,
    /// Letters are accepted by nobody.
    SwallowsLetters,
    /// Somebody else takes messages out of a queue.
    Steals,
    /// Changes of visibility are answered, and never made.
    SwallowsVisibility,
    /// Somebody sends a message once more.
    SendsCopies,
    /// Somebody writes a letter that no policy has decided.
    InventsLetters,
    /// A host can't be ended by SIGTERM.
    IgnoresStops,
    /// A pause is reported, and undone at once.
    UndoesPauses,
    /// Somebody takes letters that a redrive has not moved.
    TakesLetters,
    /// A host ends by itself.
    Ends,
}

/// What somebody does meanwhile who should not.
pub(crate) async fn act(world: Arc<World>) {
    // The fast queue.
    let client = &world.emulators[0].client;
    let (url, dead) = &world.urls[0];
    sleep(Duration::from_secs(4)).await;
    if world.has(Planted::InventsLetters) {
        let body = r#"{"n": 1, "do": "fine"}"#;
        let send = client.send_message().queue_url(dead).message_body(body);
        let _ = send.send().await;
    }
    if world.has(Planted::Ends) {
        let process = world.hosts[0].process.lock().await;
        process.signal(Signal::KILL);
    }
    if world.has(Planted::UndoesPauses) {
        operators::pause(&world, 0, Duration::from_secs(6)).await;
    }
    loop {
        if world.has(Planted::Steals) {
            take(client, url).await;
        }
        if world.has(Planted::TakesLetters) {
            take(client, dead).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Receives messages, and deletes them.
async fn take(client: &Client, url: &str) {
    let Ok(received) = client.receive_message().queue_url(url).send().await else {
        return;
    };
    for message in received.messages.unwrap_or_default() {
        let delete = client.delete_message().queue_url(url);
        let delete = delete.set_receipt_handle(message.receipt_handle);
        let _ = delete.send().await;
    }
}
