//! `GET /v1/waiting` and `GET /v1/messages/{id}`: what waits, and what is remembered of one message.

use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::{AdminQueue, Interface};
use crate::failure::Timestamp;
use crate::waiting::{Filter, MessageReport, QueueReport, Reach};

/// What waits in the queues of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostWaiting {
    /// Its process id.
    pub process: u32,
    /// The queues.
    pub queues: Vec<QueueReport>,
}

/// What a host remembers of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostMessages {
    /// Its process id.
    pub process: u32,
    /// Since when the host remembers: its start, or that of the host from which it has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The message, and its copies; none if it does not wait, or not because of this host.
    pub messages: Vec<MessageReport>,
    /// How many of the invisible messages of each queue the host knows, if it does not know this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<QueueReach>,
}

/// How many of the invisible messages of a queue a host knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueReach {
    /// The queue's name in the configuration.
    pub queue: String,
    /// How many.
    #[serde(flatten)]
    pub reach: Reach,
}

/// What waits of the messages that match.
pub(super) async fn waiting(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[
        "queue",
        "code",
        "class",
        "attempt",
        "id",
        "group",
        "due-after",
        "failed-until",
        "reach",
    ])?;
    let texts = |name: &'static str| call.values(name).map(str::to_owned).collect::<Vec<_>>();
    let filter = Filter {
        code: texts("code"),
        class: texts("class"),
        attempt: numbers(&call, "attempt")?,
        id: texts("id"),
        group: texts("group"),
        due_after: numbers(&call, "due-after")?.last().copied().map(Timestamp),
        failed_until: numbers(&call, "failed-until")?
            .last()
            .copied()
            .map(Timestamp),
    };
    let names = texts("queue");
    for name in &names {
        host.queue(name)?;
    }
    let queues = host.queues()?.iter();
    let named = queues.filter(|queue| names.is_empty() || names.contains(&queue.name));
    let reports = named.filter_map(|queue| Some((queue, queue.waiting.as_ref()?)));
    let with_reach = match call.values("reach").last() {
        None | Some("yes") => true,
        Some("no") => false,
        Some(_) => return Err(Refused::invalid("`reach` expects yes or no")),
    };
    let reports = reports.map(async |(queue, waiting)| {
        let mut report = if with_reach {
            waiting.report(&filter).await
        } else {
            waiting.remembered(&filter)
        };
        report.reach.known += queue.in_hand();
        report.not_polled = queue.not_polled();
        report
    });
    Answer::json(&HostWaiting {
        process: std::process::id(),
        queues: join_all(reports).await,
    })
}

fn numbers<T: FromStr>(call: &Call, name: &str) -> Result<Vec<T>, Refused> {
    let number = |text: &str| {
        let invalid = |_| Refused::invalid(format!("`{name}` expects a whole number"));
        text.parse().map_err(invalid)
    };
    let given = call.query.iter().filter(|(it, _)| it == name);
    given.map(|(_, text)| number(text)).collect()
}

/// What is remembered of one message, in all queues.
pub(super) async fn message(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    let queues = host.queues()?.iter();
    let all: Vec<_> = queues.filter_map(|queue| queue.waiting.clone()).collect();
    let since = all.iter().map(|waiting| waiting.since()).max();
    // The active policies decide about it again.
    let messages = spawn_blocking(move || {
        let found = all
            .iter()
            .flat_map(|waiting| waiting.message(&call.variable));
        found.collect::<Vec<_>>()
    });
    let messages = messages.await.map_err(Refused::internal)?;
    let reach = if messages.is_empty() {
        reach(host.queues()?).await
    } else {
        Vec::new()
    };
    Answer::json(&HostMessages {
        process: std::process::id(),
        since,
        messages,
        reach,
    })
}

async fn reach(queues: &[AdminQueue]) -> Vec<QueueReach> {
    let waiting = queues
        .iter()
        .filter_map(|queue| Some((queue, queue.waiting.as_ref()?)));
    let reaches = waiting.map(async |(queue, waiting)| {
        let mut reach = waiting.reach().await;
        reach.known += queue.in_hand();
        QueueReach {
            queue: queue.name.clone(),
            reach,
        }
    });
    join_all(reaches).await
}
