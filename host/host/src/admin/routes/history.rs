//! `GET /v1/history` and `GET /v1/audit`: what the host did in the last minutes, and what operators asked it for.

use std::sync::Arc;

use backstop_core::clock;
use serde::{Deserialize, Serialize};

use crate::admin::answer::{Answer, Refused};
use crate::admin::audit::Done;
use crate::admin::call::Call;
use crate::admin::history::{MINUTES, QueueHistory, Swap};
use crate::admin::interface::Interface;

/// The minutes of an answer that is not told how many.
const USUAL: usize = 3 * 60;

/// What a host did in the last minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostHistory {
    /// Its process id.
    pub process: u32,
    /// Its queues.
    pub queues: Vec<QueueHistory>,
    /// When other versions of their policies became active.
    pub swaps: Vec<Swap>,
}

/// What operators asked a host for since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostAudit {
    /// Its process id.
    pub process: u32,
    /// The last actions, the newest first.
    pub actions: Vec<Done>,
}

/// What the host did in the last minutes.
pub(super) async fn history(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&["minutes"])?;
    let minutes = match call.values("minutes").last() {
        Some(text) => {
            let minutes = text.parse().ok();
            let minutes = minutes.filter(|it| (1..=MINUTES).contains(it));
            minutes.ok_or_else(|| {
                Refused::invalid(format!(
                    "`minutes` expects a whole number from 1 to {MINUTES}"
                ))
            })?
        }
        None => USUAL,
    };
    host.queues()?;
    let (queues, swaps) = host.history().last(clock::now(), minutes);
    Answer::json(&HostHistory {
        process: std::process::id(),
        queues,
        swaps,
    })
}

/// The last actions.
pub(super) async fn audit(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    Answer::json(&HostAudit {
        process: std::process::id(),
        actions: host.audit.all(),
    })
}
