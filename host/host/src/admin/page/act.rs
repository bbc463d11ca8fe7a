//! What somebody does on the page: the same actions as those of the commands, sent to every host that the person has seen. If other hosts serve the queue by now, nothing is done.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::failure::{Milliseconds, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fleet::{Answers, DoneAt, Fleet, STATUS};
use super::reconsider::{self, Previewed};
use super::text::{count, parse_duration};
use super::wake::{Until, chosen, wake_body};
use crate::admin::answer::Refused;
use crate::admin::call::Call;
use crate::admin::caller::Caller;
use crate::admin::routes::{HostAnswer, HostStatus};
use crate::waiting::{Filter, Woken};

/// What is to be done, at the hosts that were seen.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "action",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
enum Action {
    Wake {
        queue: String,
        /// Which messages; without it, `all` has to be true.
        #[serde(default)]
        filter: Option<Filter>,
        #[serde(default)]
        all: bool,
        spread: Milliseconds,
        /// When each host has counted the messages.
        as_of: BTreeMap<String, Timestamp>,
    },
    Reconsider {
        queue: String,
        spread: Milliseconds,
        /// What each host has counted.
        hosts: BTreeMap<String, Previewed>,
    },
    Pause {
        queue: String,
        hosts: Vec<String>,
        #[serde(default)]
        r#for: String,
        #[serde(default)]
        why: String,
    },
    Resume {
        queue: String,
        hosts: Vec<String>,
        #[serde(default)]
        ramp: String,
    },
    Rollback {
        queues: Vec<String>,
        hosts: Vec<String>,
        /// The version that was seen: no other one is rolled back.
        from: String,
    },
    Survey {
        queue: String,
        /// The host that makes it.
        host: String,
        #[serde(default)]
        pointer: String,
        #[serde(default)]
        keep_attempts: String,
        #[serde(default)]
        what_if: Option<String>,
    },
    Redrive {
        /// The host that has made the survey.
        host: String,
        request: Value,
    },
    StopRun {
        host: String,
        queue: String,
        run: String,
    },
    ResumeRun {
        host: String,
        queue: String,
        run: String,
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
    let action = call.json()?;
    fleet.forget();
    match action {
        Action::Wake {
            queue,
            filter,
            all,
            spread,
            as_of,
        } => {
            let filter = chosen(filter, all).map_err(Refused::invalid)?;
            let seen: Vec<_> = as_of.keys().cloned().collect();
            serving(fleet, by, std::slice::from_ref(&queue), &seen).await?;
            let body = |id: &str| {
                Some(wake_body(
                    &queue,
                    &filter,
                    spread,
                    Until::Preview(*as_of.get(id)?),
                ))
            };
            let done = fleet.post(by, &["v1", "wake"], body).await;
            Ok(woken(done, seen.len()))
        }
        Action::Reconsider {
            queue,
            spread,
            hosts: previewed,
        } => {
            let seen: Vec<_> = previewed.keys().cloned().collect();
            serving(fleet, by, std::slice::from_ref(&queue), &seen).await?;
            reconsider::expect_versions(fleet, by, &queue, &previewed).await?;
            let body = |id: &str| reconsider::body(&queue, spread, &previewed, id);
            let done = fleet.post(by, &["v1", "reconsider"], body).await;
            let (at_hosts, total) = reconsider::finish(fleet, by, &queue, done).await;
            let did = format!("{} messages come sooner", count(total));
            Ok(outcome(at_hosts, seen.len(), &did))
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
            let serving = serving(fleet, by, &[queue], &hosts).await?;
            every(fleet, by, "pause", &serving, |_| body.clone()).await
        }
        Action::Resume { queue, hosts, ramp } => {
            let mut body = json!({ "queue": queue });
            set_duration(&mut body, "ramp", &ramp)?;
            let serving = serving(fleet, by, &[queue], &hosts).await?;
            every(fleet, by, "resume", &serving, |_| body.clone()).await
        }
        Action::Rollback {
            queues,
            hosts,
            from,
        } => {
            let serving = serving(fleet, by, &queues, &hosts).await?;
            let body = |queues: &[String]| json!({ "queues": queues, "from": from });
            every(fleet, by, "rollback", &serving, body).await
        }
        Action::Survey {
            queue,
            host,
            pointer,
            keep_attempts,
            what_if,
        } => {
            let keep = !keep_attempts.is_empty();
            let body = json!({ "queue": queue, "pointer": pointer, "keep-attempts": keep, "what-if": what_if });
            let done = |_: &Value| "A survey has begun.".to_owned();
            one(fleet, by, &["v1", "survey"], &host, &body, done).await
        }
        Action::Redrive { host, request } => {
            let path = ["v1", "redrive"];
            one(fleet, by, &path, &host, &request, redriven).await
        }
        Action::StopRun { host, queue, run } => {
            let body = json!({ "queue": queue, "run": run });
            let path = ["v1", "redrive", "stop"];
            let done = |_: &Value| "It stops after the batches under way.".to_owned();
            one(fleet, by, &path, &host, &body, done).await
        }
        Action::ResumeRun { host, queue, run } => {
            let body = json!({ "queue": queue, "run": run });
            let path = ["v1", "redrive", "resume"];
            let done = |_: &Value| "It goes on.".to_owned();
            one(fleet, by, &path, &host, &body, done).await
        }
    }
}

/// Sends an action to one host.
async fn one(
    fleet: &Fleet,
    by: &Caller,
    path: &[&str],
    host: &str,
    body: &Value,
    done: impl Fn(&Value) -> String,
) -> Result<Outcome, Refused> {
    let sent = fleet.post(by, path, |id| (id == host).then(|| body.clone()));
    let Some(DoneAt { host, answer, .. }) = sent.await.into_iter().next() else {
        return Err(Refused::conflict(
            "nothing was done: the host that you have seen does not answer. Look again, then repeat it",
        ));
    };
    let answer = answer.map_err(|why| {
        Refused::conflict(format!(
            "{host} has refused, or not answered: {why}. Look before you repeat it"
        ))
    })?;
    let text = done(&answer);
    Ok(Outcome {
        summary: text.clone(),
        is_part: false,
        hosts: vec![AtHost { host, text }],
    })
}

/// What became of a request for a run, in words.
fn redriven(answer: &Value) -> String {
    let run = answer.get("run").and_then(Value::as_str);
    format!("The run {} has begun.", run.unwrap_or_default())
}

/// The hosts that serve one of these queues, with those that each serves. They have to be those that were seen. A host that does not answer may be one, so nothing is done without it.
async fn serving(
    fleet: &Fleet,
    by: &Caller,
    queues: &[String],
    seen: &[String],
) -> Result<BTreeMap<String, Vec<String>>, Refused> {
    let answers: Answers<HostStatus> = fleet.get(by, &STATUS, &[]).await;
    if let Some(missing) = answers.missing.first() {
        return Err(Refused::conflict(format!(
            "nothing was done: {} does not answer, and may serve the queue. Do it by the command, host by host, or take the host out of `fleet`",
            missing.host
        )));
    }
    let mut serving = BTreeMap::new();
    for (name, status) in answers.of {
        let id = super::fleet::id(&name, &status);
        let served = status.queues.into_iter().map(|it| it.queue);
        let served: Vec<_> = served.filter(|queue| queues.contains(queue)).collect();
        if !served.is_empty() {
            serving.insert(id, served);
        }
    }
    if serving.is_empty() {
        return Err(Refused::not_found("no host serves such a queue"));
    }
    let seen: BTreeSet<_> = seen.iter().collect();
    if !serving.keys().eq(seen.iter().copied()) {
        return Err(Refused::conflict(format!(
            "nothing was done: other hosts serve the queue now ({}) than you have seen ({}). Look again, then repeat it",
            serving.len(),
            seen.len()
        )));
    }
    Ok(serving)
}

/// Sends an action to each of these hosts, for the queues that it serves.
async fn every(
    fleet: &Fleet,
    by: &Caller,
    action: &str,
    serving: &BTreeMap<String, Vec<String>>,
    body: impl Fn(&[String]) -> Value,
) -> Result<Outcome, Refused> {
    let path = ["v1", action];
    let done = fleet.post(by, &path, |id| Some(body(serving.get(id)?)));
    let at_hosts = done.await.into_iter().map(|DoneAt { host, answer, .. }| {
        let text = answer.and_then(|answer| match not_done(&answer) {
            Some(reason) => Err(reason),
            None => Ok(did(action, &answer).to_owned()),
        });
        (host, text)
    });
    let what = match action {
        "pause" => "paused",
        "resume" => "resumed",
        _ => "rolled back",
    };
    Ok(outcome(at_hosts.collect(), serving.len(), what))
}

/// What an action did at a host.
fn did(action: &str, answer: &Value) -> &'static str {
    match action {
        "pause" => "paused",
        "resume" if answer.get("ended").is_none() => "it was not paused",
        "resume" => "resumed",
        _ => "rolled back",
    }
}

/// Of a rollback: why a queue's policy was not rolled back.
fn not_done(answer: &Value) -> Option<String> {
    let queues = answer.get("queues").and_then(Value::as_array);
    let mut reasons = queues.into_iter().flatten();
    let reason = reasons.find_map(|it| it.get("not-rolled-back")?.as_str());
    reason.map(str::to_owned)
}

fn woken(done: Vec<DoneAt>, seen: usize) -> Outcome {
    let mut total = 0;
    let mut text = |answer: Value| {
        let Woken {
            woken,
            as_soon,
            refused,
            resent,
            not_reached,
            ..
        } = HostAnswer::read(answer)?;
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
