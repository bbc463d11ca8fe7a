//! `backstop status`: how running hosts serve their queues.

use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_host::admin::{HostStatus, QueueStatus};
use backstop_host::consumer::{LimitedKey, Pause, Serving};
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
        for key in serving.each.iter().flat_map(|each| &each.limited) {
            println!(
                "  {YELLOW}at a limit  {}{YELLOW:#}",
                one_line(&limited(key))
            );
        }
        if let Some(more) = serving.each.as_ref().map(|it| it.keys - it.limited.len())
            && more > 0
        {
            println!("              and {} more keys", count(wide(more)));
        }
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

/// `at most 100, and 50/s; of each /tenant at most 5, and 20/s`
pub(super) fn limits(serving: &Serving) -> String {
    let most = most(Some(serving.max_in_flight), serving.rate.as_deref());
    match &serving.each {
        Some(each) => {
            let of_each = self::most(each.max_in_flight, each.rate.as_deref());
            format!("{most}; of each {} {of_each}", one_line(&each.by))
        }
        None => most,
    }
}

fn most(in_flight: Option<usize>, rate: Option<&str>) -> String {
    let most = in_flight.map_or_else(
        || "any number".to_owned(),
        |most| format!("at most {}", count(wide(most))),
    );
    match rate {
        Some(rate) => format!("{most}, and {}", one_line(rate)),
        None => format!("{most}, at any rate"),
    }
}

/// `acme: 5 in flight, 3 wait in memory, 1,200 held back`
fn limited(key: &LimitedKey) -> String {
    let [in_flight, waiting, held_back] =
        [key.in_flight, key.waiting, key.held_back].map(|number| count(wide(number)));
    format!(
        "{}: {in_flight} in flight, {waiting} wait in memory, {held_back} held back",
        key.key
    )
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
