//! `GET /v1/status`: how each queue is served, and which version of its policy it has.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::{AdminQueue, Interface};
use crate::consumer::{Down, Serving};
use crate::policy::{RolledBack, Status};
use backstop_decider::shadow::{Compared, Shadow};

/// The status of a host, and the result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostStatus {
    /// Its process id.
    pub process: u32,
    /// Tells this host from all others: a number of its own since its start. Processes in containers have equal ids.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The queues.
    pub queues: Vec<QueueStatus>,
}

/// The status of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueStatus {
    /// The queue's name in the configuration.
    pub queue: String,
    /// Its URL, or `local:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
    /// What is not attempted for now, because what is behind the worker is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<Down>,
    /// The status of its policy.
    pub policy: Status,
    /// The other queues of this host with the same policy, which swap and are rolled back together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
    /// The policy that is compared with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// The rollback, if one was requested and done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RolledBack>,
    /// Why the policy was not rolled back, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_rolled_back: Option<String>,
}

/// What a shadow has said since it and the live policy have their versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowStatus {
    /// Its version, for people.
    pub title: String,
    /// How often it agreed, and the last failures that it decided otherwise.
    #[serde(flatten)]
    pub compared: Compared,
}

impl ShadowStatus {
    fn of(shadow: &Shadow) -> Self {
        Self {
            title: shadow.policy().current().title(),
            compared: shadow.compared(),
        }
    }
}

impl QueueStatus {
    pub(super) fn of(queue: &AdminQueue, all: &[AdminQueue]) -> Self {
        let others = all.iter().filter(|it| it.name != queue.name);
        let sharing = others.filter(|it| Arc::ptr_eq(&it.policy, &queue.policy));
        Self {
            shared_with: sharing.map(|it| it.name.clone()).collect(),
            queue: queue.name.clone(),
            url: queue.waiting.as_ref().map(|it| it.url().to_owned()),
            serving: queue.serving(),
            down: queue.down(),
            policy: queue.policy.status(),
            shadow: queue.shadow.as_deref().map(ShadowStatus::of),
            rolled_back: None,
            not_rolled_back: None,
        }
    }
}

/// The status of all queues.
pub(super) async fn status(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    Answer::json(&of(&host)?)
}

pub(super) fn of(host: &Interface) -> Result<HostStatus, Refused> {
    Ok(HostStatus {
        process: std::process::id(),
        host: host.id.clone(),
        queues: statuses(host.queues()?),
    })
}

fn statuses(queues: &[AdminQueue]) -> Vec<QueueStatus> {
    let statuses = queues.iter().map(|queue| QueueStatus::of(queue, queues));
    statuses.collect()
}
