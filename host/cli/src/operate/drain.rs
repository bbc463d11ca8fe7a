//! `backstop drain`: stops running hosts as a signal does, and waits until they have ended.

use std::time::Duration;

use backstop_core::text::one_line;
use backstop_host::admin::{ClientError, Host, HostStatus};
use clap::Parser;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::error::{Exit, Result};
use crate::hosts::{HostArgs, print_each, status};
use crate::terminal::style::BOLD;
use crate::terminal::{count, println};
use crate::time::{parse_wait, whole_seconds};

/// How often a host that stops is asked what it still has in hand.
const PAUSE: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  Before this machine is taken out of the fleet:
    backstop drain

  In a preStop hook of Kubernetes, with the grace period of the queues and some more:
    backstop drain --wait 40s

What is in hand ends within `grace` of its queue; the rest returns to the queue without an attempt. It is what SIGTERM does.";

/// Stop running hosts, and wait until what they have in hand is done
///
/// It reaches all hosts of this machine, or those of --admin.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |arg| arg.help("Print what each host has in hand at first as JSON, one object a line")))]
pub(crate) struct Args {
    /// How long to wait for the end of all hosts
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "1m")]
    wait: Duration,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    let started = Instant::now();
    let body = json!({});
    let answers =
        hosts.each(async |host| host.post::<HostStatus>(&["v1", "drain"], &body).await)?;
    if args.hosts.json {
        print_each(&answers)?;
    }
    for (host, answer) in &answers {
        if !args.hosts.json {
            println!("{}", line(host, answer));
        }
    }
    let until = started + args.wait;
    for (host, _) in &answers {
        let ended = Handle::current().block_on(ends(host, until));
        if !ended {
            return Err(Exit::Queue.because(format!(
                "{} has not ended within {}: it goes on with what it has in hand, up to `grace` of its queues; `backstop status` shows how much that is",
                one_line(host.name()),
                whole_seconds(args.wait)
            )));
        }
        if !args.hosts.json {
            let took = whole_seconds(started.elapsed());
            println!(
                "{BOLD}{}{BOLD:#}  ended after {took}",
                one_line(host.name())
            );
        }
    }
    hosts.carried_out_by(answers.len())
}

/// `process 4711  stops, with 3 messages of orders in hand`
fn line(host: &Host, answer: &HostStatus) -> String {
    let in_hand = answer.queues.iter().filter_map(|queue| {
        let messages = queue.serving.as_ref()?.in_flight;
        let messages = count(u64::try_from(messages).unwrap_or(u64::MAX));
        Some(format!("{messages} of {}", one_line(&queue.queue)))
    });
    let in_hand: Vec<_> = in_hand.collect();
    format!(
        "{BOLD}{}{BOLD:#}  stops, with messages in hand: {}",
        one_line(host.name()),
        in_hand.join(", ")
    )
}

/// Waits until a host does not answer any more.
async fn ends(host: &Host, until: Instant) -> bool {
    while Instant::now() < until {
        if status(host).await.is_err_and(|error| has_ended(&error)) {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

/// Whether nobody listens any more. A host that is slow, or that a network hides, has not ended.
fn has_ended(error: &ClientError) -> bool {
    match error {
        ClientError::Ended { .. } => true,
        ClientError::Unreachable { cause, .. } => cause.is_connect() && !cause.is_timeout(),
        ClientError::Url { .. }
        | ClientError::NoAddress { .. }
        | ClientError::Unauthorized { .. }
        | ClientError::Refused { .. }
        | ClientError::Invalid { .. } => false,
    }
}
