//! Starts a run that moves the letters that somebody has chosen from a survey, and no others.

use std::sync::Arc;

use backstop_core::clock;
use backstop_core::lock::lock;
use backstop_core::rate::Rate;
use backstop_core::text::{chain, cut, one_line};
use backstop_dead_letters::redrive::{
    self, Activity, DEFAULT_VISIBILITY, DEFAULT_WAIT, Plan, RedriveError, RunFolder, Runs, Setup,
    Steps, Wanted,
};
use backstop_dead_letters::{Attempts, Filters};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::DeskError;
use super::choice::{Chosen, RedriveRequest, choose, steps};
use super::desk::{Desk, DeskQueue, Reserved};
use super::state::Running;
use super::survey::{Survey, home};
use crate::queue::Queue;

/// The most letters that are read to fix the set of a run: as many as a survey has.
const MOST: usize = 10_000;

/// The longest reason, in bytes.
const WHY_BYTES: usize = 500;

/// What was started, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Started {
    /// The survey.
    pub survey: String,
    /// How many letters were chosen.
    pub letters: u64,
    /// How many of the chosen groups come from elsewhere: they stay.
    pub elsewhere: u64,
    /// Where they go.
    pub to: String,
    /// The version that was asked in the survey, for people.
    pub asked: String,
    /// The version that is active now, for people.
    pub active: String,
    /// Whether a run has moved letters of the queue since the survey.
    pub moved_since: bool,
    /// The dead-letter queue.
    pub dead_letter_queue: String,
    /// The run, if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl Desk {
    /// Starts a run that moves the chosen letters. A dry run finds out whether it could start.
    pub(crate) async fn redrive(
        self: &Arc<Self>,
        request: RedriveRequest,
        by: &str,
    ) -> Result<Started, DeskError> {
        let queue = self.queue(&request.queue)?;
        let steps = steps(&request)?;
        let survey = self.survey_of(queue, &request.survey)?;
        let choosing = (Arc::clone(&survey), request.clone());
        let chosen = spawn_blocking(move || choose(&choosing.0, &choosing.1)).await;
        let Chosen {
            queue: number,
            ids,
            elsewhere,
        } = chosen.map_err(broken)??;
        let letters = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let dead = queue.dead_letters.get(number);
        let dead = dead.ok_or_else(|| DeskError::Refused("there is no such queue".to_owned()))?;
        let reserved = self.reserve(vec![dead.url().to_owned()], &format!("a run by {by}"))?;
        let run = if request.dry_run {
            // A look keeps nobody from a run.
            drop(reserved);
            self.may_start(dead, &request).await?;
            None
        } else {
            let begun = self.begin(queue, (dead, reserved), ids, &steps, &request, by);
            Some(begun.await?)
        };
        Ok(Started {
            survey: survey.id.clone(),
            letters,
            elsewhere,
            to: queue.queue.url().to_owned(),
            asked: survey.policy.clone(),
            active: queue.policy.current().title(),
            moved_since: self.has_moved_since(queue, survey.at),
            dead_letter_queue: dead.url().to_owned(),
            run,
        })
    }

    /// The survey that somebody has seen, unless there is another one by now.
    fn survey_of(&self, queue: &DeskQueue, id: &str) -> Result<Arc<Survey>, DeskError> {
        let surveys = lock(&self.surveys);
        let survey = surveys.get(&queue.name).and_then(|it| it.survey.clone());
        survey.filter(|it| it.id == id).ok_or_else(|| {
            DeskError::Conflict(
                "there is another survey of this queue by now, or this one is forgotten: look at the letters again, and choose again".to_owned(),
            )
        })
    }

    /// The runs that there are, if one of a dead-letter queue could start now.
    async fn may_start(
        &self,
        dead: &Arc<dyn Queue>,
        request: &RedriveRequest,
    ) -> Result<Runs, DeskError> {
        let wanted = Wanted {
            queue: Arc::clone(dead),
            run: String::new(),
            who: String::new(),
            despite: None,
            is_shared: false,
        };
        wanted.check().await?;
        let runs = self.place()?.runs(None).await?;
        if runs.is_shared() && request.keep_copies {
            return Err(RedriveError::NoCopies.into());
        }
        let url = dead.url().to_owned();
        let settled = spawn_blocking(move || runs.check_settled(&url).map(|()| runs));
        Ok(settled.await.map_err(broken)??)
    }

    async fn begin(
        self: &Arc<Self>,
        queue: &DeskQueue,
        (dead, reserved): (&Arc<dyn Queue>, Reserved),
        ids: Vec<String>,
        (steps, rate): &(Steps, Option<Rate>),
        request: &RedriveRequest,
        by: &str,
    ) -> Result<String, DeskError> {
        let runs = self.may_start(dead, request).await?;
        let filters = Filters {
            letters: Some(ids.into_iter().collect()),
            ..Filters::default()
        };
        let mut why = request.why.clone().map(|why| why.trim().to_owned());
        why.iter_mut().for_each(|why| cut(why, WHY_BYTES));
        let started = dead.now();
        let others = queue.dead_letters.iter();
        let others = others.filter(|other| other.url() != dead.url());
        let plan = Plan {
            version: 1,
            run: Plan::new_id(started),
            started,
            who: one_line(by),
            why: why.filter(|why| !why.is_empty()),
            queue: dead.url().to_owned(),
            endpoint_url: self.connections.endpoint().map(str::to_owned),
            filters: filters.flags(),
            to: Some(home(queue.queue.url())),
            default_to: None,
            watched: others.map(|other| other.url().to_owned()).collect(),
            attempts: Attempts::Reset,
            envelope_key_file: None,
            rate: rate.map(|rate| rate.to_string()),
            ramp: steps.ramp.clone(),
            stop_at: steps.stop_at,
            watch: steps.watch,
            wait: DEFAULT_WAIT,
            keep_copies: request.keep_copies,
            edit: false,
            native: false,
            visibility: DEFAULT_VISIBILITY,
            most: MOST,
        };
        let folder = runs.create(&plan).await?;
        self.carry_out((dead, reserved), plan, folder, filters, by)
    }

    /// Carries out a run in the background.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        (dead, reserved): (&Arc<dyn Queue>, Reserved),
        plan: Plan,
        folder: RunFolder,
        filters: Filters,
        by: &str,
    ) -> Result<String, DeskError> {
        let rate = plan.rate.as_deref().map(str::parse::<Rate>).transpose();
        let rate = rate.map_err(|error| {
            DeskError::Refused(format!("the plan's rate can't be read: {error}"))
        })?;
        let (activity, stop) = (Arc::<Activity>::default(), self.stop.child_token());
        let running = Running {
            activity: Arc::clone(&activity),
            stop: stop.clone(),
        };
        lock(&self.running).insert(plan.run.clone(), running);
        let setup = Setup {
            queue: Arc::clone(dead),
            connections: Arc::clone(&self.connections),
            folder,
            checked: Some(Box::new(plan.clone())),
            filters,
            interval: rate.map(|rate| rate.interval()),
            editor: None,
            keys: None,
            who: one_line(by),
            despite: None,
            activity,
            stop,
        };
        let ends = Ends {
            desk: Arc::clone(self),
            run: plan.run.clone(),
            queue: plan.queue.clone(),
            failed: Some("it broke off".to_owned()),
            _reserved: reserved,
        };
        tracing::info!(
            run = plan.run,
            queue = plan.queue,
            by,
            "a run moves dead letters"
        );
        let runtime = Handle::current();
        // On a thread of its own: the future of a run stays on one.
        let _task = self.tasks.spawn_blocking(move || {
            let failed = match runtime.block_on(redrive::run(setup)) {
                Ok(summary) => {
                    tracing::info!(
                        run = ends.run,
                        moved = summary.counts.moved,
                        refused = summary.counts.refused,
                        "failed-again" = summary.counts.failed_again,
                        outcome = summary.ended.outcome.as_str(),
                        "a run of dead letters has ended"
                    );
                    None
                }
                Err(error) => {
                    let why = chain(&error);
                    tracing::error!(run = ends.run, "a run of dead letters failed: {why}");
                    Some(why)
                }
            };
            ends.with(failed);
        });
        Ok(plan.run)
    }
}

/// Work on another thread has broken off.
pub(super) fn broken(error: tokio::task::JoinError) -> DeskError {
    DeskError::Refused(error.to_string())
}

/// Notes the end of a run, also of one that breaks off.
struct Ends {
    desk: Arc<Desk>,
    run: String,
    /// The URL of the dead-letter queue.
    queue: String,
    failed: Option<String>,
    _reserved: Reserved,
}

impl Ends {
    fn with(mut self, failed: Option<String>) {
        self.failed = failed;
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        lock(&self.desk.running).remove(&self.run);
        let queue = std::mem::take(&mut self.queue);
        lock(&self.desk.moved).insert(queue, clock::now());
        self.desk
            .summaries
            .set_failed(&self.run, self.failed.take());
    }
}
