//! The commands for running hosts: how queues are served, and an operator's pauses, limits and stops.

pub(crate) mod drain;
pub(crate) mod pause;
pub(crate) mod resume;
pub(crate) mod set;
pub(crate) mod status;

use backstop_host::admin::{Host, HostAnswer};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Result;
use crate::hosts::{HostArgs, each};

/// A host and what it did.
type Answers<T> = Vec<(Host, HostAnswer<T>)>;

/// Sends an action on a queue to every host that serves it.
fn act<T: DeserializeOwned>(
    hosts: &HostArgs,
    queue: &str,
    action: &str,
    body: &Value,
) -> Result<Answers<T>> {
    let hosts = hosts.serving(queue)?;
    let answers = each(&hosts, async |host| host.post(&["v1", action], body).await)?;
    let answers = answers.into_iter();
    Ok(answers
        .map(|(host, answer)| (host.clone(), answer))
        .collect())
}
