//! How much of what is invisible a host knows.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Waiting;
use crate::decision::Hold;

/// How long the queue's own number may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many of the invisible messages of a queue a host knows. The others are out of its reach: other hosts handle them or have made them wait, or did so before this one's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reach {
    /// About how many messages of the queue are invisible, by the queue's own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Those of them that the host has in hand or has made wait, whatever the filter.
    #[serde(default)]
    pub known: u64,
}

impl Reach {
    /// About how many messages are out of reach of all of these hosts of one queue, if the queue says how many are invisible.
    pub fn missing(hosts: impl IntoIterator<Item = Self>) -> Option<u64> {
        let mut known = 0_u64;
        let mut in_flight = None;
        for host in hosts {
            known = known.saturating_add(host.known);
            in_flight = in_flight.max(host.in_flight);
        }
        in_flight.map(|all: u64| all.saturating_sub(known))
    }
}

impl Waiting {
    /// How many of the invisible messages it has made wait.
    pub async fn reach(&self) -> Reach {
        let described = timeout(DESCRIBE_TIMEOUT, self.queue.describe()).await;
        let described = described.ok().and_then(Result::ok);
        let memory = self.memory();
        let hidden = memory.iter().filter(|(_, it)| it.hold == Hold::Visibility);
        let hidden = u64::try_from(hidden.count()).unwrap_or(u64::MAX);
        Reach {
            in_flight: described.and_then(|it| it.in_flight).map(|it| it as u64),
            known: hidden.saturating_add(memory.not_remembered()),
        }
    }
}
