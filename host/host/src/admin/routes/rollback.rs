//! `POST /v1/rollback`: returns policies to their previous versions.

use std::sync::Arc;

use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::status::{HostStatus, QueueStatus};
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::{AdminQueue, Interface};
use crate::policy::{LivePolicy, RolledBack};

/// The body.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Body {
    /// The queues whose policies are rolled back; all if it is missing.
    #[serde(default)]
    queues: Option<Vec<String>>,
    /// Rolls back for the queues that share a policy with the named ones, too.
    #[serde(default)]
    shared: bool,
    /// Rolls back only where this is active: the beginning of the digest of a part.
    #[serde(default)]
    from: Option<String>,
}

/// The fewest characters of a digest.
const DIGEST: usize = 8;

/// Rolls the policies of the named queues back. Nothing is rolled back if a queue is unknown, or if another queue shares the policy of a named one and is not meant.
pub(super) async fn roll_back(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let Body {
        queues,
        shared,
        from,
    } = call.json()?;
    if queues.as_ref().is_some_and(Vec::is_empty) {
        let empty = "an empty list of `queues` chooses no queue: leave it out for all queues";
        return Err(Refused::invalid(empty));
    }
    for name in queues.iter().flatten() {
        host.queue(name)?;
    }
    let from = from.map(|from| from.trim_start_matches("sha256:").to_owned());
    if from.as_ref().is_some_and(|from| from.len() < DIGEST) {
        let short = format!("expected at least {DIGEST} digits of a digest in `from`");
        return Err(Refused::invalid(short));
    }
    let is_named = |queue: &&AdminQueue| {
        let names = queues.as_ref();
        names.is_none_or(|names| names.contains(&queue.name))
    };
    let all = host.queues()?;
    let named: Vec<_> = all.iter().filter(is_named).collect();
    let shares = |queue: &&AdminQueue| {
        let is_same = |it: &&AdminQueue| Arc::ptr_eq(&it.policy, &queue.policy);
        named.iter().any(is_same)
    };
    let others: Vec<_> = all
        .iter()
        .filter(|it| !is_named(it) && shares(it))
        .collect();
    if !others.is_empty() && !shared {
        let others: Vec<_> = others.iter().map(|it| format!("`{}`", it.name)).collect();
        return Err(Refused::conflict(format!(
            "{} have the same policy, and would be rolled back too: name them, or send `shared` (--all-queues)",
            others.join(", ")
        )));
    }
    let named: Vec<_> = all.iter().filter(shares).cloned().collect();
    // The previous version may have to be compiled.
    let queues = spawn_blocking(move || roll_back_all(&named, from.as_deref(), &call))
        .await
        .map_err(Refused::internal)?;
    let done = queues.iter().filter(|queue| queue.rolled_back.is_some());
    let result = format!("{} of {} queues rolled back", done.count(), queues.len());
    let process = std::process::id();
    Ok(Answer::json(&HostStatus {
        process,
        host: host.id.clone(),
        queues,
    })?
    .with_result(result))
}

fn roll_back_all(queues: &[AdminQueue], from: Option<&str>, call: &Call) -> Vec<QueueStatus> {
    let mut done: Vec<(Arc<LivePolicy>, Result<RolledBack, String>)> = Vec::new();
    let queues = queues.iter().map(|queue| {
        // Queues that share a policy share its versions, so one rollback is enough.
        let shared = done.iter().find(|(it, _)| Arc::ptr_eq(it, &queue.policy));
        let result = match shared {
            Some((_, result)) => result.clone(),
            None => {
                let result = roll_back_one(queue, from, call);
                done.push((Arc::clone(&queue.policy), result.clone()));
                result
            }
        };
        let mut status = QueueStatus::of(queue, queues);
        match result {
            Ok(rolled_back) => status.rolled_back = Some(rolled_back),
            Err(reason) => status.not_rolled_back = Some(reason),
        }
        status
    });
    queues.collect()
}

fn roll_back_one(
    AdminQueue { name, policy, .. }: &AdminQueue,
    from: Option<&str>,
    call: &Call,
) -> Result<RolledBack, String> {
    let by = &call.caller;
    let status = policy.status();
    let digests = status.live.iter().map(|part| part.digest.to_string());
    let is_from = |from| {
        let mut digests = digests.clone();
        digests.any(|digest| digest.trim_start_matches("sha256:").starts_with(from))
    };
    if let Some(from) = from.filter(|from| !is_from(*from)) {
        return Err(format!(
            "{} is active, and not a version with the digest {from}: nothing was rolled back",
            status.title
        ));
    }
    let result = policy.roll_back("rolled back by the operator");
    match &result {
        Ok(RolledBack { from, to }) => {
            tracing::warn!(queue = name, from, to, %by, "the operator rolled back a policy");
        }
        Err(error) => {
            tracing::warn!(queue = name, %by, "a rollback by the operator failed: {error}")
        }
    }
    result.map_err(|error| error.to_string())
}
