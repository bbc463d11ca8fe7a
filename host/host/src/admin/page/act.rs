//! What somebody does on the page: the same actions as those of the commands, sent to every host that the person has seen. If other hosts serve the queue by now, nothing is done.

use std::collections::BTreeMap;

use backstop_core::failure::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fleet::{Answers, DoneAt, Fleet};
use super::text::{count, parse_duration};
use super::waiting::wake_body;
use crate::admin::answer::Refused;
use crate::admin::call::Call;
use crate::admin::caller::Caller;
use crate::admin::routes::{HostAnswer, HostStatus};
use crate::waiting::Woken;

/// What is to be done.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
enum Action {
    #[serde(rename_all = "kebab-case")]
    Wake {
        queue: String,
        filter: Value,
        spread: u32,
        /// When each host has counted the messages.
        as_of: BTreeMap<String, u64>,
    },
    Pause {
        queue: String,
        hosts: usize,
        #[serde(default)]
        r#for: String,
        #[serde(default)]
        why: String,
    },
    Resume {
        queue: String,
        hosts: usize,
        #[serde(default)]
        ramp: String,
    },
    Rollback {
        queues: Vec<String>,
        hosts: usize,
        /// The version that was seen: no other one is rolled back.
        from: String,
    },
}

/// What was done, host by host.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// In one sentence.
    summary: String,
    /// Whether a part was not done.
    is_part: bool,
    hosts: Vec<AtHost>,
}

#[derive(Debug, Serialize)]
struct AtHost {
    host: String,
    text: String,
}

/// Does it.
pub(super) async fn act(fleet: &Fleet, by: &Caller, call: &Call) -> Result<Outcome, Refused> {
    match call.json()? {
        Action::Wake {
            queue,
            filter,
            spread,
            as_of,
        } => {
            let serving = serving(fleet, by, &queue).await?;
            let seen: Vec<_> = as_of.keys().cloned().collect();
            if serving != seen {
                return Err(changed(seen.len(), serving.len()));
            }
            let body = |id: &str| {
                let until = as_of.get(id)?;
                Some(wake_body(
                    &queue,
                    &filter,
                    spread,
                    Some(Timestamp(*until)),
                    false,
                ))
            };
            let done = fleet.post(by, "/v1/wake", body).await;
            Ok(woken(done, seen.len()))
        }
        Action::Pause {
            queue,
            hosts,
            r#for,
            why,
        } => {
            let mut body = json!({ "queue": queue });
            set_duration(&mut body, "for", &r#for)?;
            if !why.trim().is_empty() {
                set(&mut body, "why", why.trim().into());
            }
            every(fleet, by, "/v1/pause", &queue, hosts, &body, "paused").await
        }
        Action::Resume { queue, hosts, ramp } => {
            let mut body = json!({ "queue": queue });
            set_duration(&mut body, "ramp", &ramp)?;
            every(fleet, by, "/v1/resume", &queue, hosts, &body, "resumed").await
        }
        Action::Rollback {
            queues,
            hosts,
            from,
        } => {
            let first = queues.first().cloned().unwrap_or_default();
            let body = json!({ "queues": queues, "from": from });
            let outcome = every(
                fleet,
                by,
                "/v1/rollback",
                &first,
                hosts,
                &body,
                "rolled back",
            )
            .await?;
            Ok(outcome)
        }
    }
}

/// The ids of the hosts that serve a queue, in their order. One that does not answer may serve it, so nothing is done without it.
async fn serving(fleet: &Fleet, by: &Caller, queue: &str) -> Result<Vec<String>, Refused> {
    let answers: Answers<HostStatus> = fleet.get(by, "/v1/status", &[]).await;
    if let Some(missing) = answers.missing.first() {
        return Err(Refused::conflict(format!(
            "nothing was done: {} does not answer, and may serve the queue. Do it by the command, host by host, or take the host out of `fleet`",
            missing.host
        )));
    }
    let serves = |status: &HostStatus| status.queues.iter().any(|it| it.queue == queue);
    let serving = answers.of.into_iter().filter(|(_, status)| serves(status));
    let mut ids: Vec<_> = serving
        .map(|(host, status)| super::fleet::id(&host, &status))
        .collect();
    ids.sort();
    if ids.is_empty() {
        return Err(Refused::not_found(format!(
            "no host serves a queue `{queue}`"
        )));
    }
    Ok(ids)
}

fn changed(seen: usize, now: usize) -> Refused {
    Refused::conflict(format!(
        "nothing was done: {now} hosts serve the queue now, and you have seen {seen}, or others. Look again, then repeat it"
    ))
}

/// Sends the same to each host that serves a queue, if they are as many as were seen.
async fn every(
    fleet: &Fleet,
    by: &Caller,
    path: &str,
    queue: &str,
    hosts: usize,
    body: &Value,
    did: &str,
) -> Result<Outcome, Refused> {
    let serving = serving(fleet, by, queue).await?;
    if serving.len() != hosts {
        return Err(changed(hosts, serving.len()));
    }
    let done = fleet.post(by, path, |id| {
        serving.iter().any(|it| it == id).then(|| body.clone())
    });
    let at_hosts = done.await.into_iter().map(|DoneAt { host, answer, .. }| {
        let text = answer
            .map_err(|error| error.to_string())
            .and_then(|answer| not_done(&answer));
        (host, text.map(|()| did.to_owned()))
    });
    Ok(outcome(at_hosts.collect(), hosts, did))
}

/// Of a rollback: why a queue's policy was not rolled back.
fn not_done(answer: &Value) -> Result<(), String> {
    let queues = answer.get("queues").and_then(Value::as_array);
    let reasons = queues.into_iter().flatten();
    let mut reasons = reasons.filter_map(|it| it.get("not-rolled-back")?.as_str());
    reasons
        .next()
        .map_or(Ok(()), |reason| Err(reason.to_owned()))
}

fn woken(done: Vec<DoneAt>, seen: usize) -> Outcome {
    let mut total = 0;
    let read = |answer: Value| {
        serde_json::from_value::<HostAnswer<Woken>>(answer).map_err(|error| error.to_string())
    };
    let mut text = |answer: Value| {
        let Woken {
            woken,
            as_soon,
            refused,
            resent,
            not_reached,
            ..
        } = read(answer)?.result;
        total += woken + resent;
        let text = format!(
            "{} come sooner, {} as soon anyway, {} when their hop ends",
            count(woken),
            count(as_soon),
            count(resent)
        );
        match refused + not_reached {
            0 => Ok(text),
            others => Err(format!("{text}; {} were NOT woken", count(others))),
        }
    };
    let at_hosts = done
        .into_iter()
        .map(|DoneAt { host, answer, .. }| (host, answer.and_then(&mut text)));
    let at_hosts: Vec<_> = at_hosts.collect();
    outcome(at_hosts, seen, &format!("{} messages woken", count(total)))
}

fn outcome(hosts: Vec<(String, Result<String, String>)>, seen: usize, did: &str) -> Outcome {
    let whole = hosts.iter().filter(|(_, text)| text.is_ok()).count();
    let summary = if whole == seen {
        format!("Done at {whole} of {seen} hosts: {did}.")
    } else {
        format!("Done at {whole} of {seen} hosts ONLY: {did}. See each host.")
    };
    let hosts = hosts.into_iter().map(|(host, text)| AtHost {
        host,
        text: text.unwrap_or_else(|error| format!("NOT done, or not all of it: {error}")),
    });
    Outcome {
        summary,
        is_part: whole != seen,
        hosts: hosts.collect(),
    }
}

fn set(body: &mut Value, name: &str, value: Value) {
    if let Some(body) = body.as_object_mut() {
        let _: Option<Value> = Map::insert(body, name.to_owned(), value);
    }
}

fn set_duration(body: &mut Value, name: &str, text: &str) -> Result<(), Refused> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    let duration = parse_duration(text).ok_or_else(|| {
        Refused::invalid(format!(
            "`{text}` is no duration: expected one such as 30m or 2h"
        ))
    })?;
    set(body, name, duration.0.into());
    Ok(())
}
