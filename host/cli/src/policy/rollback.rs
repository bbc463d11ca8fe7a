//! `backstop policy rollback`: returns running hosts to the previous version of their policies.

use backstop_host::admin::HostStatus;
use clap::Parser;
use serde::Serialize;

use super::status::print;
use crate::error::{Exit, Result};
use crate::hosts::{HostArgs, NoHost, not_served, serves, status};

const EXAMPLES: &str = "\
Examples:
  Roll back the policies of all queues on this machine:
    backstop policy rollback

  Roll back one queue's policy, in a host whose configuration names its cache folder:
    backstop policy rollback orders --config backstop.toml

  Roll back only where the version that died is active, so that a second run changes nothing:
    backstop policy rollback orders --from 5f0c3a1e9b27

  Roll back in a host on another machine:
    BACKSTOP_ADMIN_TOKEN=… backstop policy rollback orders --admin http://10.0.0.7:9465

A version that was rolled back is not loaded again, not even after a restart, until its source has another version.
A version that keeps breaking is rolled back automatically: see `rollback` in host/docs/deploy/configuration.md.";

/// Roll back to the previous good version, in the hosts that run on this machine or in those of --admin
///
/// It takes effect at once, while messages flow: decisions in progress finish on the version that they started with.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The queues whose policies are rolled back [default: all]
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// Also for the queues that share a policy with those that are named: without it, such a rollback is refused
    #[arg(long)]
    all_queues: bool,

    /// Only where a part with this digest, or one that begins so, is active: 8 digits at least
    #[arg(long, value_name = "DIGEST")]
    from: Option<String>,

    #[command(flatten)]
    hosts: HostArgs,
}

/// What a host is asked for. An older one refuses what it does not know, so that is left out unless it is given.
#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<&'a String>,
    #[serde(skip_serializing_if = "is_false")]
    shared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

pub(super) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.hosts()?;
    // An unknown queue must not leave the named ones half rolled back.
    let served = hosts.each(status)?;
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
            let body = Body {
                queues,
                shared: args.all_queues,
                from: args.from.as_deref(),
            };
            (args.queues.is_empty() || !body.queues.is_empty()).then_some((*host, body))
        })
        .collect();
    let answers = hosts.each_of(&requests, async |(host, body)| {
        host.post::<HostStatus>(&["v1", "rollback"], body).await
    })?;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|((host, _), answer)| (*host, answer))
        .collect();
    print(&answers, args.hosts.json)?;
    let reached = answers.len();
    let mut queues = answers.into_iter().flat_map(|(_, answer)| answer.queues);
    let refused = queues.find_map(|queue| {
        let reason = queue.not_rolled_back?;
        Some(Exit::Policy.because(format!("queue `{}`: {reason}", queue.queue)))
    });
    refused.map_or_else(|| hosts.carried_out_by(reached), Err)
}
