//! `backstop pause`: stops a queue, and keeps its hosts running.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_host::consumer::Pause;
use clap::Parser;
use serde_json::json;

use super::act;
use crate::error::Result;
use crate::hosts::HostArgs;
use crate::time::{at, parse_wait};

const EXAMPLES: &str = "\
Examples:
  The till is closed: no order is attempted until somebody resumes the queue:
    backstop pause orders --why 'the till is closed until 14:00'

  For half an hour, on a host elsewhere:
    BACKSTOP_ADMIN_TOKEN=… backstop pause orders --for 30m --admin http://10.0.0.7:9465

Attempts under way end as usual. Messages that were received already return to the queue without an attempt, and those that wait for a retry come to the queue when they are due, and stay there. The pause survives a restart of the host, if that has a cache. `backstop resume` ends it; host/docs/operate/operating.md explains more.";

/// Stop polling a queue, until it is resumed or for a time
///
/// It reaches all hosts of this machine that serve the queue, or those of --admin.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// How long, 1s to 14d [default: until it is resumed]
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    r#for: Option<Duration>,

    /// Why, for the log and for those who look at the queue meanwhile
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let queue = &args.queue;
    let over = args.r#for.map(Milliseconds::from_duration);
    let body = json!({"queue": queue, "for": over, "why": args.why});
    act(
        &args.hosts,
        queue,
        "pause",
        &body,
        |pause: &Pause| match pause.until {
            Some(until) => format!("paused until {}", at(until, clock::now())),
            None => format!("paused until `backstop resume {}`", one_line(queue)),
        },
    )
}
