//! `backstop status`: how running hosts serve their queues.

use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_host::admin::{HostStatus, QueueStatus};
use backstop_host::consumer::{Pause, Serving};
use clap::Parser;

use crate::error::Result;
use crate::hosts::{HostArgs, print_each, status};
use crate::terminal::style::{BOLD, GREEN, RED, YELLOW};
use crate::terminal::{count, println};
use crate::time::{ago, at};

const EXAMPLES: &str = "\
Examples:
  The hosts of this machine:
    backstop status

  A host elsewhere, for a script:
    BACKSTOP_ADMIN_TOKEN=… backstop status --admin http://10.0.0.7:9465 --json | jq '.queues[] | {queue, serving}'

`backstop waiting` shows what waits for a retry, `backstop policy status` more about policies.";

/// Show how running hosts serve their queues: pauses, limits, messages in flight, policies
///
/// It asks all hosts of this machine, or those of --admin.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    let answers = hosts.each(status)?;
    if args.hosts.json {
        return print_each(&answers);
    }
    for (host, HostStatus { queues, .. }) in &answers {
        for queue in queues {
            print(host.name(), queue);
        }
    }
    Ok(())
}

fn print(host: &str, status: &QueueStatus) {
    let queue = one_line(&status.queue);
    println!("{BOLD}{queue}{BOLD:#}  {}", one_line(host));
    if let Some(serving) = &status.serving {
        match serving {
            Serving {
                paused: Some(pause),
                ..
            } => println!("  {YELLOW}{}{YELLOW:#}", paused(pause, clock::now())),
            Serving {
                not_polled: Some(reason),
                ..
            } => println!("  {RED}{}{RED:#}", one_line(reason)),
            Serving { .. } => println!("  {GREEN}is polled{GREEN:#}"),
        }
        let in_flight = count(wide(serving.in_flight));
        println!("  in flight   {in_flight}; {}", limits(serving));
    }
    for down in &status.down {
        let key = down.key.as_deref().unwrap_or("the whole queue");
        let text = format!(
            "{key}: the breaker is {}, after {} failures",
            down.state, down.failed
        );
        println!("  {YELLOW}down        {}{YELLOW:#}", one_line(&text));
    }
    println!("  policy      {}", one_line(&status.policy.title));
}

/// `is paused until 2026-11-24T14:00:00Z, in 12m; begun 5m ago by user 1000: the till is closed`
fn paused(pause: &Pause, now: Timestamp) -> String {
    let until = pause
        .until
        .map(|until| format!(" until {}", at(until, now)));
    let why = pause.why.as_ref().map(|why| format!(": {why}"));
    let text = format!(
        "is paused{}; begun {} by {}{}",
        until.unwrap_or_default(),
        ago(pause.since, now),
        pause.by,
        why.unwrap_or_default()
    );
    one_line(&text)
}

/// `at most 100 in flight, 50/s`
pub(super) fn limits(serving: &Serving) -> String {
    let most = count(wide(serving.max_in_flight));
    match &serving.rate {
        Some(rate) => format!("at most {most}, and {}", one_line(rate)),
        None => format!("at most {most}, at any rate"),
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
