//! `POST /v1/wake`: brings waiting messages back sooner.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

impl<T: DeserializeOwned> HostAnswer<T> {
    /// What a host says that it did, or why that can't be read.
    pub(in crate::admin) fn read(answer: Value) -> Result<T, String> {
        let read = serde_json::from_value::<Self>(answer);
        read.map(|it| it.result).map_err(|error| error.to_string())
    }
}

/// The body of a wake.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WakeBody {
    queue: String,
    /// Some of the messages. An empty filter chooses nothing: nobody should wake all by leaving something out.
    #[serde(default)]
    filter: Option<Filter>,
    /// All messages, in place of a filter.
    #[serde(default)]
    all: bool,
    #[serde(default)]
    spread: Milliseconds,
    #[serde(default)]
    dry_run: bool,
}

/// Wakes messages of a queue.
pub(super) async fn wake(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: WakeBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    let filter = chosen(body.filter, body.all).map_err(Refused::invalid)?;
    if !filter.group.is_empty() && waiting.grouped_by().is_none() {
        return Err(Refused::invalid(
            "the messages of this queue have no groups: expected `group-by` in its configuration",
        ));
    }
    let wake = Wake {
        filter,
        spread: body.spread,
        dry_run: body.dry_run,
    };
    let mut woken: Woken = waiting.wake(&wake).await;
    woken.reach.known += host.queue(&body.queue)?.in_hand();
    let result = format!(
        "{} match, {} come sooner, {} as soon anyway, {} refused, {} sent again",
        woken.matched, woken.woken, woken.as_soon, woken.refused, woken.resent
    );
    answer(body.queue, body.dry_run, woken, result)
}

/// Which messages are meant. Without a choice, none are: the request is refused.
fn chosen(filter: Option<Filter>, all: bool) -> Result<Filter, &'static str> {
    match (filter, all) {
        (None, true) => Ok(Filter::default()),
        (Some(filter), false) if !filter.is_empty() => Ok(filter),
        (Some(_), true) => Err("expected `filter` or `\"all\": true`, not both"),
        (Some(_), false) => Err(
            "an empty `filter` chooses no message: name a `code`, `class`, `attempt`, `id`, `group`, `due-after` or `failed-until`, or send `\"all\": true` in place of `filter`",
        ),
        (None, false) => Err("expected `filter`, or `\"all\": true` for all messages"),
    }
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
    let log = if dry_run {
        format!("dry run: {log}")
    } else {
        log
    };
    let answer = Answer::json(&HostAnswer {
        process: std::process::id(),
        queue,
        dry_run,
        result,
    })?;
    Ok(answer.with_result(log))
}
