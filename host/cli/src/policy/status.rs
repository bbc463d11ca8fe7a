//! `backstop policy status`: the active versions of running hosts.

use backstop::internal::control::Request;
use clap::Parser;

use super::hosts::HostArgs;
use crate::error::Result;

const EXAMPLES: &str = "\
Examples:
  The active versions on this machine:
    backstop policy status

  For a script:
    backstop policy status --json | jq '.queues[] | {queue, title: .policy.title}'";

/// Show the active policy versions of the hosts that run on this machine
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let answers = args.hosts.request(&Request::Status)?;
    args.hosts.print(&answers)
}
