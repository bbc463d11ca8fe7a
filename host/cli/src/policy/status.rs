//! `backstop policy status`: the active versions of running hosts.

use std::collections::BTreeMap;

use anstyle::Style;
use backstop_core::text::one_line;
use backstop_host::admin::{Host, HostStatus, QueueStatus};
use clap::Parser;

use crate::error::Result;
use crate::hosts::{HostArgs, print_each, status};
use crate::terminal::println;
use crate::terminal::style::{BOLD, GREEN, RED, YELLOW};

const EXAMPLES: &str = "\
Examples:
  The active versions on this machine:
    backstop policy status

  Those of a host on another machine:
    BACKSTOP_ADMIN_TOKEN=… backstop policy status --admin http://10.0.0.7:9465

  For a script:
    backstop policy status --json | jq '.queues[] | {queue, title: .policy.title}'";

/// Show the active policy versions of the hosts that run on this machine, or of those of --admin
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    print(&hosts.each(status)?, args.hosts.json)
}

/// Prints the status of each host: a line of JSON, or a paragraph for each queue.
pub(super) fn print(answers: &[(&Host, HostStatus)], json: bool) -> Result<()> {
    if json {
        return print_each(answers);
    }
    for (host, status) in answers {
        for queue in &status.queues {
            print_queue(host.name(), queue);
        }
    }
    for line in several_versions(answers) {
        println!("{YELLOW}{line}{YELLOW:#}");
    }
    Ok(())
}

/// The queues with several active versions, and on how many hosts each is: `orders has 2 active versions: … on 2 hosts, … on process 4711`
fn several_versions(answers: &[(&Host, HostStatus)]) -> Vec<String> {
    let mut queues = BTreeMap::<&str, BTreeMap<&str, Vec<&str>>>::new();
    for (host, status) in answers {
        for queue in &status.queues {
            let versions = queues.entry(&queue.queue).or_default();
            let hosts = versions.entry(&queue.policy.title).or_default();
            hosts.push(host.name());
        }
    }
    let several = queues.into_iter().filter(|(_, it)| it.len() > 1);
    let several = several.map(|(queue, versions)| {
        let each = versions.iter().map(|(title, hosts)| match hosts[..] {
            [host] => format!("{title} on {host}"),
            _ => format!("{title} on {} hosts", hosts.len()),
        });
        let each: Vec<_> = each.collect();
        let text = format!(
            "{queue} has {} active versions: {}",
            each.len(),
            each.join(", ")
        );
        one_line(&text)
    });
    several.collect()
}

fn print_queue(host: &str, queue: &QueueStatus) {
    let status = &queue.policy;
    println!(
        "{BOLD}{}{BOLD:#}  {}",
        one_line(&queue.queue),
        one_line(host)
    );
    let styled = |name: &str, style: Style, value: &str| {
        println!("  {name:<11} {style}{}{style:#}", one_line(value));
    };
    let line = |name: &str, value: &str| styled(name, Style::new(), value);
    if let Some(done) = &queue.rolled_back {
        let done = format!("from {} to {}", done.from, done.to);
        styled("rolled back", GREEN, &done);
    }
    if let Some(reason) = &queue.not_rolled_back {
        styled("rolled back", RED, &format!("no: {reason}"));
    }
    line(
        "active",
        &format!("{}, since {}", status.title, status.since.rfc3339()),
    );
    line("previous", status.before.as_deref().unwrap_or("none"));
    let checked = status.checked.rfc3339();
    line(
        "source",
        &format!("{}, checked at {checked}", status.sources.join(" + ")),
    );
    if let Some(compiling) = &status.compiling {
        let since = compiling.since.rfc3339();
        line(
            "compiling",
            &format!("{}, since {since}", compiling.version),
        );
    }
    if let Some(refused) = &status.refused {
        styled("rejected", RED, refused);
    }
    if let Some(unreachable) = &status.unreachable {
        styled("unreachable", RED, unreachable);
    }
}
