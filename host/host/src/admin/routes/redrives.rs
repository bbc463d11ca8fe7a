//! `GET /v1/redrives` and the actions on them: the runs that move dead letters back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::wake::answer;
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::config::AdminRole;
use crate::letters::{DeskError, Found, Grouping, RedriveRequest, RunDetail, RunReport};
use backstop_dead_letters::redrive::RedriveError;

/// The runs in the place of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostRedrives {
    /// Its process id.
    pub process: u32,
    /// Tells this host from all others.
    pub host: String,
    /// Where it keeps runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why they can't be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The newest ones, 50 at most, the latest first.
    pub runs: Vec<RunReport>,
    /// How many more there are.
    pub more: u64,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostRedrive {
    /// Its process id.
    pub process: u32,
    /// The run, if the host knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunDetail>,
}

/// The body of an action on a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RunBody {
    queue: String,
    run: String,
}

/// The run that an action was about.
#[derive(Debug, Serialize)]
struct RunAnswer {
    run: String,
}

/// The runs.
pub(super) async fn redrives(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    let Found {
        place,
        problem,
        runs,
        more,
    } = host.desk()?.runs().await;
    Answer::json(&HostRedrives {
        process: std::process::id(),
        host: host.id.clone(),
        place,
        problem,
        runs,
        more,
    })
}

/// One run.
pub(super) async fn redrive(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    let run = match host.desk()?.run(&call.variable).await {
        Ok(run) => Some(run),
        // It may be at another host.
        Err(DeskError::Refused(_) | DeskError::Redrive(RedriveError::NoRun { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    Answer::json(&HostRedrive {
        process: std::process::id(),
        run,
    })
}

/// Starts a run.
pub(super) async fn start(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: RedriveRequest = call.json()?;
    // A value comes from a body: nobody may try which ones there are.
    if body.grouped_by == Grouping::Value {
        Refused::unless(call.caller.role(), AdminRole::Bodies)?;
    }
    let (queue, dry_run) = (body.queue.clone(), body.dry_run);
    let by = call.caller.to_string();
    let started = host.desk()?.redrive(body, &by).await?;
    let log = match &started.run {
        Some(run) => format!(
            "{} letters chosen, the run {run} has begun",
            started.letters
        ),
        None => format!("{} letters chosen", started.letters),
    };
    answer(queue, dry_run, started, log)
}

/// Stops a run.
pub(super) async fn stop(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let RunBody { queue, run } = call.json()?;
    host.desk()?.stop_run(&run)?;
    answer(queue, false, RunAnswer { run }, "it stops".to_owned())
}

/// Goes on with a run.
pub(super) async fn resume(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let RunBody { queue, run } = call.json()?;
    let by = call.caller.to_string();
    host.desk()?.resume(&run, &by).await?;
    answer(queue, false, RunAnswer { run }, "it goes on".to_owned())
}
