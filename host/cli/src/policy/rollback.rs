//! `backstop policy rollback`: returns running hosts to the previous version of their policies.

use backstop::internal::control::Request;
use clap::Parser;

use super::hosts::{HostArgs, queues};
use crate::error::{CommandError, Result};

const EXAMPLES: &str = "\
Examples:
  Roll back the policies of all queues on this machine:
    backstop policy rollback

  Roll back one queue's policy, in a host whose configuration names its cache folder:
    backstop policy rollback orders --config backstop.toml

A version that was rolled back is not loaded again, not even after a restart, until its source has another version.
A version that keeps breaking is rolled back automatically: see `rollback` in host/docs/configuration.md.";

/// Roll back to the previous good version, in the hosts that run on this machine
///
/// It takes effect at once, while messages flow: decisions in progress finish on the version that they started with.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The queues whose policies are rolled back [default: all]
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(super) fn run(args: Args) -> Result<()> {
    // An unknown queue must not leave the named ones half rolled back.
    let served = args.hosts.request(&Request::Status)?;
    let serves = |name: &String| queues(&served).any(|queue| queue.queue == *name);
    if let Some(unknown) = args.queues.iter().find(|name| !serves(name)) {
        return Err(CommandError::NoHost(format!(
            "no running host serves the queue `{unknown}`: nothing was rolled back"
        )));
    }
    let answers = args.hosts.request(&Request::RollBack {
        queues: args.queues,
    })?;
    args.hosts.print(&answers)?;
    let refused = queues(&answers).find_map(|queue| match &queue.rolled_back {
        Some(Err(reason)) => Some(CommandError::RollbackRefused {
            queue: queue.queue.clone(),
            reason: reason.clone(),
        }),
        Some(Ok(_)) | None => None,
    });
    refused.map_or(Ok(()), Err)
}
