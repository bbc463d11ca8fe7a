//! `backstop policy status`: the active versions of running hosts.

use anstyle::{AnsiColor, Style};
use backstop::internal::admin::{ClientError, Host, HostStatus, QueueStatus};
use backstop_core::text::one_line;
use clap::Parser;

use crate::error::Result;
use crate::hosts::{HostArgs, each};
use crate::output::println;

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

    /// Print the answer of each host as JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    for (host, status) in each(&hosts, status)? {
        print(host, &status, args.json)?;
    }
    Ok(())
}

/// The status of a host.
pub(super) async fn status(host: &Host) -> Result<HostStatus, ClientError> {
    host.get(&["v1", "status"], &[]).await
}

/// Prints the status of a host: a line of JSON, or a paragraph for each queue.
pub(super) fn print(host: &Host, status: &HostStatus, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(status)?);
        return Ok(());
    }
    for queue in &status.queues {
        print_queue(host.name(), queue);
    }
    Ok(())
}

fn print_queue(host: &str, queue: &QueueStatus) {
    let bold = Style::new().bold();
    let red: Style = AnsiColor::Red.on_default();
    let green: Style = AnsiColor::Green.on_default();
    let status = &queue.policy;
    println!(
        "{bold}{}{bold:#}  {}",
        one_line(&queue.queue),
        one_line(host)
    );
    let styled = |name: &str, style: Style, value: &str| {
        println!("  {name:<11} {style}{}{style:#}", one_line(value));
    };
    let line = |name: &str, value: &str| styled(name, Style::new(), value);
    if let Some(done) = &queue.rolled_back {
        let done = format!("from {} to {}", done.from, done.to);
        styled("rolled back", green, &done);
    }
    if let Some(reason) = &queue.not_rolled_back {
        styled("rolled back", red, &format!("no: {reason}"));
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
        styled("rejected", red, refused);
    }
    if let Some(unreachable) = &status.unreachable {
        styled("unreachable", red, unreachable);
    }
}
