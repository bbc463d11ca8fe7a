//! `POST /v1/wake`: brings waiting messages back sooner.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::failure::Milliseconds;
use crate::waiting::{Filter, Waiting, Wake, Woken};

/// What a host did about a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostAnswer<T> {
    /// Its process id.
    pub process: u32,
    /// The queue's name in the configuration.
    pub queue: String,
    /// Whether it only counted.
    pub dry_run: bool,
    /// What it did.
    #[serde(flatten)]
    pub result: T,
}

/// The body of a wake.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WakeBody {
    queue: String,
    /// An empty one, `{}`, for all messages: nobody should wake them by leaving something out.
    filter: Filter,
    #[serde(default)]
    spread: Milliseconds,
    #[serde(default)]
    dry_run: bool,
}

/// Wakes messages of a queue.
pub(super) async fn wake(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    let body: WakeBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    let wake = Wake {
        filter: body.filter,
        spread: body.spread,
        dry_run: body.dry_run,
    };
    let woken: Woken = waiting.wake(&wake).await;
    let result = format!(
        "{} match, {} come sooner, {} as soon anyway, {} refused, {} sent again",
        woken.matched, woken.woken, woken.as_soon, woken.refused, woken.resent
    );
    answer(body.queue, body.dry_run, woken, result)
}

/// What waits in a queue.
pub(super) fn of(host: &Interface, queue: &str) -> Result<Arc<Waiting>, Refused> {
    let waiting = host.queue(queue)?.waiting.clone();
    waiting.ok_or_else(|| Refused::not_found(format!("nothing waits in the queue `{queue}`")))
}

/// The answer to an action, and what is logged of it.
pub(super) fn answer(
    queue: String,
    dry_run: bool,
    result: impl Serialize,
    log: String,
) -> Result<Answer, Refused> {
    let log = match dry_run {
        true => format!("dry run: {log}"),
        false => log,
    };
    let answer = Answer::json(&HostAnswer {
        process: std::process::id(),
        queue,
        dry_run,
        result,
    })?;
    Ok(answer.with_result(log))
}
