//! `backstop policy rollback`: returns running hosts to the previous version of their policies.

use backstop_host::admin::HostStatus;
use clap::Parser;
use serde_json::json;

use super::status::print;
use crate::error::{Exit, Result};
use crate::hosts::{HostArgs, NoHost, each, not_served, serves, status};

const EXAMPLES: &str = "\
Examples:
  Roll back the policies of all queues on this machine:
    backstop policy rollback

  Roll back one queue's policy, in a host whose configuration names its cache folder:
    backstop policy rollback orders --config backstop.toml

  Roll back in a host on another machine:
    BACKSTOP_ADMIN_TOKEN=… backstop policy rollback orders --admin http://10.0.0.7:9465

A version that was rolled back is not loaded again, not even after a restart, until its source has another version.
A version that keeps breaking is rolled back automatically: see `rollback` in host/docs/configuration.md.";

/// Roll back to the previous good version, in the hosts that run on this machine or in those of --admin
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

    /// Print the answer of each host as JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    // An unknown queue must not leave the named ones half rolled back.
    let served = each(&hosts, status)?;
    let is_unknown = |name: &&String| !served.iter().any(|(_, status)| serves(status, name));
    if let Some(unknown) = args.queues.iter().find(is_unknown) {
        let reason = "nothing was rolled back";
        return Err(NoHost(format!("{}: {reason}", not_served(unknown))).into());
    }
    // Each host gets the names of its own queues.
    let requests: Vec<_> = served
        .iter()
        .filter_map(|(host, status)| {
            let named = args.queues.iter().filter(|name| serves(status, name));
            let queues: Vec<_> = named.collect();
            if args.queues.is_empty() {
                Some((*host, json!({})))
            } else {
                (!queues.is_empty()).then(|| (*host, json!({ "queues": queues })))
            }
        })
        .collect();
    let answers = each(&requests, async |(host, body)| {
        host.post::<HostStatus>(&["v1", "rollback"], body).await
    })?;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|((host, _), answer)| (*host, answer))
        .collect();
    print(&answers, args.json)?;
    let mut queues = answers.into_iter().flat_map(|(_, answer)| answer.queues);
    let refused = queues.find_map(|queue| {
        let reason = queue.not_rolled_back?;
        Some(Exit::Policy.because(format!("queue `{}`: {reason}", queue.queue)))
    });
    refused.map_or(Ok(()), Err)
}
