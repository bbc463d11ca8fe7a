//! `backstop dlq stop`: asks the run to stop that moves letters of a queue, whoever has started it.

use std::time::Duration;

use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_dead_letters::redrive::{Holder, ask_to_stop, holder};
use backstop_files::values::parse_span;
use backstop_queue::Queue;
use clap::Parser;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::queue::QueueArgs;
use super::redrive::state;
use crate::error::{Exit, Result};
use crate::terminal::{Progress, println};

/// How often the tag of the queue is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often it is asked again.
const AGAIN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  Letters die again: stop the redrive, whoever has started it and wherever it runs:
    backstop dlq stop orders

It sets a tag of the dead-letter queue, which a run looks at every five seconds, and waits until the run has stopped: batches under way are finished, and what the run holds is visible again. `backstop dlq redrive --resume RUN` goes on, where the run is kept (--state). It needs sqs:ListQueueTags and sqs:TagQueue.

A run that may not set tags has no lock, and is not found.

Exits with 0 if the run has stopped or no run has the lock, and with 9 if it has not answered.";

/// Stop the run that moves letters of a queue, whoever has started it
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,

    /// Who you are, for the log of runs [default: the user and the host]
    #[arg(long, value_name = "NAME")]
    who: Option<String>,

    /// How long to wait until the run has stopped: it looks every five seconds, and ends the batches under way
    #[arg(long, value_name = "DURATION", value_parser = parse_span, default_value = "90s")]
    wait: Duration,

    /// Print JSON: one object for each queue
    #[arg(long)]
    json: bool,
}

/// What became of the run of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Stopped,
    /// No run has the lock.
    NoRun,
    NoAnswer,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let opened = args.queue.open().await?;
    let who = args.who.clone().unwrap_or_else(state::user);
    let mut unanswered = Vec::new();
    let stops = opened.queues.iter();
    let stops = stops.map(|queue| stop(&**queue, &who, args.wait));
    let stops = join_all(stops).await;
    for (queue, stopped) in opened.queues.iter().zip(stops) {
        let (stop, holder) = stopped?;
        say(queue.url(), stop, holder.as_ref(), args.json);
        if stop == Stop::NoAnswer {
            unanswered.extend(holder);
        }
    }
    match unanswered.first() {
        None => Ok(()),
        Some(Holder { run, until, .. }) => Err(Exit::Undelivered.because(format!(
            "the run {run} has not answered within {}: if it was killed, its lock counts until {}",
            Milliseconds::from_duration(args.wait),
            until.rfc3339()
        ))),
    }
}

async fn stop(queue: &dyn Queue, who: &str, patience: Duration) -> Result<(Stop, Option<Holder>)> {
    let Some(found) = active(queue).await? else {
        return Ok((Stop::NoRun, None));
    };
    let waiting = Progress::text(None, 0);
    let began = Instant::now();
    let mut asked = None;
    while began.elapsed() < patience {
        // A run that begins forgets who has asked before.
        if asked.is_none_or(|at: Instant| at.elapsed() >= AGAIN) {
            ask_to_stop(queue, &found.run, who).await?;
            asked = Some(Instant::now());
        }
        let seconds = began.elapsed().as_secs();
        waiting.say(format!(
            "the run {} is asked to stop ({seconds} s)",
            found.run
        ));
        sleep(INTERVAL).await;
        if active(queue).await?.is_none_or(|now| now.run != found.run) {
            return Ok((Stop::Stopped, Some(found)));
        }
    }
    Ok((Stop::NoAnswer, Some(found)))
}

/// The run that has the lock of a queue and works.
async fn active(queue: &dyn Queue) -> Result<Option<Holder>> {
    let found = holder(queue).await?;
    Ok(found.filter(|it| it.until > queue.now()))
}

fn say(url: &str, stop: Stop, holder: Option<&Holder>, is_json: bool) {
    let result = match stop {
        Stop::Stopped => "stopped",
        Stop::NoRun => "no-run",
        Stop::NoAnswer => "no-answer",
    };
    if is_json {
        let run = holder.map(|it| &it.run);
        let who = holder.map(|it| &it.who);
        println!(
            "{}",
            json!({"version": 1, "queue": url, "result": result, "run": run, "who": who})
        );
        return;
    }
    let url = one_line(url);
    match (stop, holder) {
        (Stop::Stopped, Some(Holder { run, who, .. })) => {
            println!(
                "{url}: the run {run} of {who} has stopped. To go on: backstop dlq redrive --resume {run}"
            );
        }
        (Stop::NoAnswer, Some(Holder { run, who, .. })) => {
            println!("{url}: the run {run} of {who} has not answered");
        }
        (Stop::NoRun | Stop::Stopped | Stop::NoAnswer, _) => {
            println!("{url}: no run has the lock of this queue");
        }
    }
}
