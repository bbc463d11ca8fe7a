//! The `backstop` command with a worker behind HTTP, which is measured from outside.

use std::time::Duration;

use backstop_tests::aws::Queues;
use backstop_tests::backstop;
use backstop_tests::process::processor_seconds;
use tokio::process::Command;
use tokio::time::sleep;

use crate::Work;

/// How often the worker is asked how far it is.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) fn command(work: &Work) -> Command {
    let (polls, in_flight) = (work.polls.to_string(), work.in_flight.to_string());
    backstop::command(&[
        "run",
        "--queue-url",
        &work.urls,
        "--endpoint-url",
        &work.endpoint,
        "--dead-letter-queue",
        &work.dead_letters,
        "--http",
        &work.worker,
        "--max-polls",
        &polls,
        "--max-in-flight",
        &in_flight,
        "--json",
    ])
}

/// Waits until the command has settled all messages. Returns the seconds of its processor time since the first one, and the seconds that passed.
pub(crate) async fn by_the_command(
    id: u32,
    worker: &str,
    queues: &Queues,
    count: usize,
) -> (f64, f64) {
    while seen(worker).await.0 == 0 {
        sleep(PAUSE).await;
    }
    let before = processor_seconds(id);
    while seen(worker).await.0 < count {
        sleep(PAUSE).await;
    }
    while queues.held().await > 0 {
        sleep(PAUSE).await;
    }
    let (_, seconds) = seen(worker).await;
    (processor_seconds(id) - before, seconds)
}

/// How many messages the worker has seen, and the seconds since the first one.
async fn seen(worker: &str) -> (usize, f64) {
    let answer = reqwest::get(format!("{worker}/seen")).await.unwrap();
    let answer = answer.text().await.unwrap();
    let (messages, seconds) = answer.split_once(' ').unwrap();
    (messages.parse().unwrap(), seconds.parse().unwrap())
}
