//! `GET /v1/dead-letters` and `POST /v1/survey`: what a survey of dead letters has found, and another one.

use std::sync::Arc;

use backstop_core::failure::Timestamp;
use serde::{Deserialize, Serialize};

use super::wake::answer;
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::config::AdminRole;
use crate::letters::{Desk, DeskError, Grouping, SurveyReport, SurveyRequest, Surveying};

/// The dead letters of a host's queues, as far as they were surveyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostLetters {
    /// Its process id.
    pub process: u32,
    /// Tells this host from all others.
    pub host: String,
    /// The queues with dead-letter queues.
    pub queues: Vec<QueueLetters>,
}

/// The dead letters of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueLetters {
    /// The queue's name in the configuration.
    pub queue: String,
    /// The URLs of its dead-letter queues.
    pub dead_letter_queues: Vec<String>,
    /// The survey that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<LettersReading>,
    /// The version that is active, for people.
    #[serde(default)]
    pub active: String,
    /// Whether a run of this host has moved letters since the survey.
    #[serde(default)]
    pub moved_since: bool,
    /// Why the last survey failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What the last survey has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<SurveyReport>,
}

/// A survey that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LettersReading {
    /// Who asked for it.
    pub by: String,
    /// When it began.
    pub since: Timestamp,
    /// The letters that it has read.
    pub read: u64,
}

/// A survey has begun.
#[derive(Debug, Serialize)]
struct Begun {
    begun: bool,
}

/// What the surveys have found.
pub(super) async fn letters(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&["queue", "grouped-by"])?;
    let by = call.values("grouped-by").last().map(str::parse::<Grouping>);
    let by = by
        .transpose()
        .map_err(Refused::invalid)?
        .unwrap_or_default();
    // A value comes from a body.
    if by == Grouping::Value {
        Refused::unless(call.caller.role(), AdminRole::Bodies)?;
    }
    let named: Vec<_> = call.values("queue").map(str::to_owned).collect();
    let desk = Arc::clone(host.desk()?);
    let id = host.id.clone();
    let queues = tokio::task::spawn_blocking(move || queues(&desk, &named, by));
    Answer::json(&HostLetters {
        process: std::process::id(),
        host: id,
        queues: queues.await.map_err(Refused::internal)?,
    })
}

fn queues(desk: &Desk, named: &[String], by: Grouping) -> Vec<QueueLetters> {
    let is_named = |name: &String| named.is_empty() || named.contains(name);
    let queues = desk.queues().iter().filter(|it| is_named(&it.name));
    let queues = queues.map(|it| {
        let Surveying {
            reading,
            failed,
            survey,
        } = desk.surveyed(&it.name);
        QueueLetters {
            queue: it.name.clone(),
            dead_letter_queues: it
                .dead_letters
                .iter()
                .map(|it| it.url().to_owned())
                .collect(),
            reading: reading.map(|(by, since, read)| LettersReading { by, since, read }),
            active: it.policy.current().title(),
            moved_since: survey
                .as_ref()
                .is_some_and(|found| desk.has_moved_since(it, found.at())),
            failed,
            found: survey.map(|survey| survey.report(by)),
        }
    });
    queues.collect()
}

/// Begins a survey.
pub(super) async fn survey(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: SurveyRequest = call.json()?;
    let queue = body.queue.clone();
    let by = call.caller.to_string();
    let policy = match &body.what_if {
        Some(question) => Some(host.what_ifs().policy(question).ok_or_else(|| {
            Refused::conflict("this host has no answer to that question: ask it again")
        })?),
        None => None,
    };
    host.desk()?.survey(body, policy, &by).await?;
    answer(
        queue,
        false,
        Begun { begun: true },
        "a survey has begun".to_owned(),
    )
}

impl From<DeskError> for Refused {
    fn from(error: DeskError) -> Self {
        match error {
            DeskError::Refused(why) => Self::invalid(why),
            error @ (DeskError::Conflict(_) | DeskError::Redrive(_)) => {
                Self::conflict(error.to_string())
            }
        }
    }
}
