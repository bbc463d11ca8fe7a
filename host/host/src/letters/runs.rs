//! The runs in the place of the host: what each has done, and which of them this host carries out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_core::text::{chain, one_line};
use backstop_dead_letters::Filters;
use backstop_dead_letters::redrive::{self, Ledger, Plan, RedriveError, RunFolder, Runs, Snapshot};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::DeskError;
use super::desk::{Desk, DeskQueue, RunsPlace};
use super::report::{RunDetail, RunReport, doing, unreadable};
use super::start::broken;
use super::state::{Listed, Stamp};
use super::survey::home;
use crate::queue::{Connections, Queue};

/// The most runs of an answer.
const MOST: usize = 50;

/// How long a listing of a bucket is good.
const LISTED_FOR: Duration = Duration::from_secs(15);

/// The most ids of a kind in the detail of a run.
pub(crate) const MOST_IDS: usize = 100;

/// The runs in the place of a host.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Where they are.
    pub place: Option<String>,
    /// Why they can't be listed.
    pub problem: Option<String>,
    /// The newest ones.
    pub runs: Vec<RunReport>,
    /// How many more there are.
    pub more: u64,
}

/// What has become of a run. On which machine a shared one runs, its queue says: it is asked over these connections, and not at the endpoint of the plan, which whoever may write into the bucket can choose.
pub async fn outcome(
    folder: &RunFolder,
    plan: &Plan,
    ledger: &Ledger,
    connections: &Connections,
) -> &'static str {
    if let Some(ended) = ledger.ended() {
        return ended.outcome.as_str();
    }
    if folder.is_active() {
        return "running";
    }
    if !folder.is_shared() {
        return "killed";
    }
    let queue = connections.by_url(&plan.queue).await;
    match redrive::holder(&*queue).await {
        Ok(Some(holder)) if holder.run == plan.run && holder.until > queue.now() => "running",
        Ok(_) => "killed",
        Err(_) => "running or killed",
    }
}

impl Desk {
    /// The runs, the latest first.
    pub(crate) async fn runs(self: &Arc<Self>) -> Found {
        let place = match self.place() {
            Ok(place) => place,
            Err(error) => {
                let problem = Some(error.to_string());
                return Found {
                    problem,
                    ..Found::default()
                };
            }
        };
        let name = Some(place.name());
        let (runs, mut ids) = match self.listed(place).await {
            Ok(listed) => listed,
            Err(error) => {
                return Found {
                    place: name,
                    problem: Some(chain(&error)),
                    ..Found::default()
                };
            }
        };
        let more = ids.split_off(MOST.min(ids.len())).len() + runs.unlisted();
        let mut found = Vec::new();
        for id in ids {
            found.push(match runs.find(&id) {
                Ok(folder) => self.report(&id, folder).await,
                Err(error) => unreadable(&id, chain(&error)),
            });
        }
        Found {
            place: name,
            problem: None,
            runs: found,
            more: u64::try_from(more).unwrap_or(u64::MAX),
        }
    }

    /// The newest runs. Those of a bucket are listed again after a while: each listing is many requests.
    async fn listed(
        &self,
        place: &Arc<dyn RunsPlace>,
    ) -> Result<(Runs, Vec<String>), RedriveError> {
        let mut listed = self.listed.lock().await;
        let known = listed.as_ref().filter(|it| it.at.elapsed() < LISTED_FOR);
        let runs = match known {
            Some(known) => known.runs.clone(),
            None => place.newest(MOST).await?,
        };
        if known.is_none() && runs.is_shared() {
            let (at, runs) = (Instant::now(), runs.clone());
            *listed = Some(Listed { at, runs });
        }
        let ids = spawn_blocking(move || runs.ids().map(|ids| (runs, ids))).await;
        ids.map_err(std::io::Error::other)?
    }

    /// One run, with the letters that were refused or came back.
    pub(crate) async fn run(self: &Arc<Self>, run: &str) -> Result<RunDetail, DeskError> {
        let folder = self.place()?.runs(Some(run)).await?.find(run)?;
        let report = self.report(run, folder.clone()).await;
        let ledger = spawn_blocking(move || folder.ledger()).await;
        let ledger = ledger.map_err(broken)??;
        let came_back = ledger.came_back().take(MOST_IDS);
        let mut uncertain = ledger.uncertain();
        uncertain.truncate(MOST_IDS);
        Ok(RunDetail {
            report,
            refusals: ledger.refused().into_iter().take(MOST_IDS).collect(),
            came_back: came_back
                .map(|(new, old)| (new.to_owned(), old.to_owned()))
                .collect(),
            uncertain_ids: uncertain,
            damaged_lines: ledger.damaged().to_vec(),
        })
    }

    async fn report(self: &Arc<Self>, id: &str, folder: RunFolder) -> RunReport {
        let here = {
            let running = lock(&self.running);
            running.get(id).map(|it| it.activity.snapshot())
        };
        let stamp = stamp(&folder.journal());
        let known = {
            let read = lock(&self.summaries.read);
            let known = read
                .get(id)
                .filter(|(at, _)| *at == stamp && stamp.is_some());
            known.map(|(_, report)| report.clone())
        };
        if let (Some(known), None) = (known, &here) {
            return known;
        }
        let reading = folder.clone();
        let read = move || -> Result<_, RedriveError> { Ok((reading.plan()?, reading.ledger()?)) };
        let read = spawn_blocking(read).await;
        let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
        let (plan, ledger) = match read {
            Ok(read) => read,
            Err(error) => return unreadable(id, chain(&error)),
        };
        let outcome = match here {
            Some(_) => "running",
            None => outcome(&folder, &plan, &ledger, &self.connections).await,
        };
        let report = self.report_of(&plan, &ledger, &folder, outcome, here.as_ref());
        if ledger.ended().is_some() && here.is_none() {
            let mut read = lock(&self.summaries.read);
            if read.len() > MOST * 4 {
                read.clear();
            }
            read.insert(id.to_owned(), (stamp, report.clone()));
        }
        report
    }

    fn report_of(
        &self,
        plan: &Plan,
        ledger: &Ledger,
        folder: &RunFolder,
        outcome: &str,
        here: Option<&Snapshot>,
    ) -> RunReport {
        let ended = ledger.ended().filter(|_| here.is_none());
        let failed = lock(&self.summaries.failed).get(&plan.run).cloned();
        let text = match (here, ended) {
            (Some(snapshot), _) => Some(doing(snapshot)),
            (None, Some(ended)) => ended.text.clone(),
            (None, None) => failed.clone(),
        };
        // It has failed here before its first step.
        let outcome = match (outcome, &failed) {
            ("killed", Some(_)) => "failed",
            (outcome, _) => outcome,
        };
        let is_open = matches!(outcome, "interrupted" | "stopped" | "failed" | "killed");
        RunReport {
            run: plan.run.clone(),
            queue: plan.queue.clone(),
            of_queue: self
                .of_dead_letters(&plan.queue)
                .map(|(name, _)| name.to_owned()),
            started: plan.started,
            who: plan.who.clone(),
            why: plan.why.clone(),
            outcome: outcome.to_owned(),
            text,
            ended: ended.map(|it| it.at),
            here: here.is_some(),
            can_resume: is_open && self.obstacle(plan).is_none(),
            to: plan.to.as_ref().map(ToString::to_string),
            steps: plan.ramp.to_string(),
            native: plan.native,
            missing: ended.and_then(|it| it.missing),
            later: ended.map_or(0, |it| it.later),
            copies: plan
                .keep_copies
                .then(|| folder.copies().display().to_string()),
            counts: here.map_or_else(|| ledger.counts(), |it| it.counts),
        }
    }

    /// One of the host's dead-letter queues, by its URL, and the name of the queue whose dead letters it has.
    fn of_dead_letters(&self, url: &str) -> Option<(&str, &Arc<dyn Queue>)> {
        let of = |it: &'_ DeskQueue| it.dead_letters.iter().any(|dead| dead.url() == url);
        let queue = self.queues().iter().find(|it| of(it))?;
        let dead = queue.dead_letters.iter().find(|it| it.url() == url)?;
        Some((&queue.name, dead))
    }

    /// Stops a run that this host carries out: batches under way are finished.
    pub(crate) fn stop_run(&self, run: &str) -> Result<(), DeskError> {
        let running = lock(&self.running);
        let found = running.get(run).ok_or_else(|| {
            DeskError::Refused(format!(
                "this host carries out no run `{}`: `backstop dlq stop` stops a run wherever it is",
                one_line(run)
            ))
        })?;
        found.stop.cancel();
        Ok(())
    }

    /// Goes on with a run of one of the host's own dead-letter queues, over its own connections.
    pub(crate) async fn resume(self: &Arc<Self>, run: &str, by: &str) -> Result<(), DeskError> {
        let folder = self.place()?.runs(Some(run)).await?.find(run)?;
        let reading = folder.clone();
        let plan = spawn_blocking(move || reading.plan()).await;
        let plan = plan.map_err(broken)??;
        if let Some(why) = self.obstacle(&plan) {
            return Err(DeskError::Refused(format!(
                "the run {run} {why}: resume it with the command"
            )));
        }
        let found = self.of_dead_letters(&plan.queue);
        let (_, dead) = found.ok_or_else(|| DeskError::Refused("no such queue".to_owned()))?;
        let filters = Filters::of_flags(&plan.filters)
            .map_err(|error| DeskError::Refused(format!("the plan of the run {run}: {error}")))?;
        let reserved = self.reserve(vec![plan.queue.clone()], &format!("a run by {by}"))?;
        if folder.is_active() {
            return Err(DeskError::Conflict(format!(
                "the run {run} is being worked on"
            )));
        }
        self.carry_out((dead, reserved), plan, folder, filters, by)?;
        Ok(())
    }

    /// Why this host can't go on with a run: it sends letters with its own rights, and to the queue whose dead letters they are.
    fn obstacle(&self, plan: &Plan) -> Option<&'static str> {
        let queue = self.queues().iter().find(|it| {
            let mut dead = it.dead_letters.iter();
            dead.any(|dead| dead.url() == plan.queue)
        });
        let Some(queue) = queue else {
            return Some("moves letters of a queue that is none of this host's dead-letter queues");
        };
        if plan.native {
            Some("is SQS's own")
        } else if plan.edit {
            Some("edits each body, which needs a terminal")
        } else if plan.envelope_key_file.is_some() {
            Some("signs envelopes with a file")
        } else if plan.to != Some(home(queue.queue.url())) {
            Some("moves letters to where they come from, or to a target of its own")
        } else {
            None
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}
