//! `POST /v1/reconsider`: lets the active version decide again about waiting messages. `POST /v1/earlier`: passes the new times of messages that are sent again on to another host.

use std::sync::Arc;

use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::wake::{answer, of};
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::failure::{ID_BYTES, Milliseconds};
use crate::waiting::{Earlier, EarlierTime, Reconsider, Reconsidered, Taken};

/// The most times of one request.
const TIMES: usize = 1_000;

/// The body of a reconsideration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ReconsiderBody {
    queue: String,
    #[serde(default)]
    spread: Milliseconds,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    list: bool,
}

/// The body with the times of another host.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct EarlierBody {
    queue: String,
    messages: Vec<EarlierTime>,
    #[serde(default)]
    dry_run: bool,
}

/// Decides about the waiting messages of a queue again.
pub(super) async fn reconsider(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: ReconsiderBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    let reconsider = Reconsider {
        spread: body.spread,
        dry_run: body.dry_run,
        list: body.list,
    };
    let reconsidered: Reconsidered = waiting.reconsider(&reconsider).await;
    let result = format!(
        "{} of {} come sooner, {} of those that are sent again",
        reconsidered.hurried, reconsidered.waiting, reconsidered.resent
    );
    answer(body.queue, body.dry_run, reconsidered, result)
}

/// Takes the times that another host decided.
pub(super) async fn take(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: EarlierBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    if body.messages.len() > TIMES {
        return Err(Refused::invalid(format!(
            "expected at most {TIMES} messages"
        )));
    }
    let is_id = |it: &EarlierTime| (1..=ID_BYTES).contains(&it.id.len());
    if !body.messages.iter().all(is_id) {
        return Err(Refused::invalid(format!(
            "expected ids of 1 to {ID_BYTES} bytes"
        )));
    }
    let earlier = Earlier {
        messages: body.messages,
        dry_run: body.dry_run,
    };
    let taken = spawn_blocking(move || waiting.take(&earlier));
    let taken: Taken = taken.await.map_err(Refused::internal)?;
    let result = format!(
        "{} times kept, {} of messages that this host has sent again",
        taken.kept, taken.resent
    );
    answer(body.queue, body.dry_run, taken, result)
}
