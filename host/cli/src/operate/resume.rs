//! `backstop resume`: lets a paused queue go on.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_host::admin::Resumed;
use clap::Parser;
use serde_json::json;

use super::act;
use crate::error::Result;
use crate::hosts::HostArgs;
use crate::time::{ago, parse_wait, rounded};

const EXAMPLES: &str = "\
Examples:
  Go on at once:
    backstop resume orders

  After a long pause, let the messages in flight grow to their limit over five minutes:
    backstop resume orders --ramp 5m";

/// Poll a paused queue again
///
/// It reaches all hosts of this machine that serve the queue, or those of --admin.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The time over which the messages in flight grow from one to their limit; 0s for at once
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "0s")]
    ramp: Duration,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ramp = Milliseconds::from_duration(args.ramp);
    let body = json!({"queue": args.queue, "ramp": ramp});
    let over = match args.ramp {
        Duration::ZERO => String::new(),
        ramp => format!(", and grows to its limit over {}", rounded(ramp)),
    };
    let said = |resumed: &Resumed| match &resumed.ended {
        Some(pause) => {
            let (since, by) = (ago(pause.since, clock::now()), one_line(&pause.by));
            format!("resumed{over}: it was paused {since} by {by}")
        }
        None => "was not paused".to_owned(),
    };
    act(&args.hosts, &args.queue, "resume", &body, said)
}
