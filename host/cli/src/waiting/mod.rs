//! `backstop waiting`: which messages wait for their next attempt, why, and until when.

pub(crate) mod filters;
mod report;

use backstop_core::clock;
use backstop_host::admin::HostWaiting;
use clap::Parser;

use crate::error::Result;
use crate::hosts::{HostArgs, not_served, print_each};
use filters::FilterArgs;

/// Whose messages no host knows that was asked.
pub(crate) const OUT_OF_REACH: &str = "of hosts that were not asked or forgot them when they ended";

const EXAMPLES: &str = "\
Examples:
  What waits in all queues of this machine's hosts:
    backstop waiting

  What waits in one queue because of one error:
    backstop waiting orders --code \"HTTP 503\"

  What is not due within the next hour:
    backstop waiting orders --due-after 1h

  The same of a host on another machine:
    BACKSTOP_ADMIN_TOKEN=… backstop waiting orders --admin http://10.0.0.7:9465

  For a script:
    backstop waiting orders --json | jq '.queues[] | {queue, waiting, groups}'

A host remembers the messages that it has made invisible or sent again, at most 120,000 of each queue, also across a restart if it has a cache. No API of SQS lists such messages. `backstop wake` brings them back sooner; `backstop why MESSAGE-ID` explains one. host/docs/operate/waiting.md explains more.";

/// Show which messages wait for their next attempt, why, and until when
///
/// Asks the hosts that run on this machine, or those of --admin, and adds up what they remember: how many messages wait, by error code, class and attempts, and when they are due.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue, by its name in the configuration [default: all]
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    let query = args.filters.query();
    let query: Vec<_> = query
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut answers =
        hosts.each(async |host| host.get::<HostWaiting>(&["v1", "waiting"], &query).await)?;
    if let Some(name) = &args.queue {
        for (_, answer) in &mut answers {
            answer.queues.retain(|queue| queue.queue == *name);
        }
        answers.retain(|(_, answer)| !answer.queues.is_empty());
        if answers.is_empty() {
            return Err(not_served(name).into());
        }
    }
    if args.hosts.json {
        return print_each(&answers);
    }
    let is_filtered = !args.filters.filter().is_empty();
    report::print(&answers, is_filtered, clock::now());
    Ok(())
}
