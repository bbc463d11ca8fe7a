//! `backstop dlq redrive`: moves dead letters back.

mod dry_run;
mod editor;
mod native;
mod plan;
mod progress;
pub(super) mod report;
pub(super) mod state;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::rate::Rate;
use backstop_core::share::Share;
use backstop_core::text::one_line;
use backstop_dead_letters::Filters;
use backstop_dead_letters::redrive::{
    self, Activity, Outcome, Plan, Ramp, RedriveError, RunFolder, Setup, Summary, To, Wanted,
};
use backstop_files::values::parse_span;
use backstop_host::traces;
use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, Queue};
use clap::Parser;

use super::filters::FilterArgs;
use super::queue::{AccessArgs, DeadLetterQueues};
use super::reading::ReadingArgs;
use crate::error::{Context, Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::eprintln;
use crate::time::parse_wait;
use editor::EditorProgram;
use progress::Shown;
use state::StateArgs;

/// What is logged after the first signal.
const STOPPING: &str = "stopping: batches under way are finished, and letters are made visible again; a second signal stops at once, and loses nothing either";

/// Of letters that keep their attempts without a key, although their queue has some.
const UNSIGNED: &str = "the letters keep their attempts, and no key signs that: the hosts of the queue handle them under new ids. If the letters can be trusted, --envelope-key-file with the queue's keys keeps their ids (host/docs/operate/redrive.md)";

const EXAMPLES: &str = "\
Examples:
  Count what would be moved, and where to:
    backstop dlq redrive orders --code 'HTTP 503' --dry-run

  The cause is fixed: move 10 letters, then 100, then the rest; stop if more than 5 % of a step fail again within 5 minutes:
    backstop dlq redrive orders --code 'HTTP 503' --ramp 10,100,all --stop-at 5% --watch-for 5m --why 'payment provider is back'

  The letters that a new policy would retry, 50 a second:
    backstop dlq triage orders --policy new.wasm --save ids.jsonl
    backstop dlq redrive orders --ids ids.jsonl --rate 50/s

  Correct bodies in $EDITOR, one letter at a time:
    backstop dlq redrive orders --class permanent --edit

  Go on with a run that was interrupted or killed:
    backstop dlq redrive --resume 20261122-031500-7f3a

  What was moved, by whom, why, and what has failed again:
    backstop dlq runs

The set is fixed when a run starts: letters that arrive later are counted and left alone. Each step of a run is written to a journal before it is taken. After kill -9, --resume goes on: no letter is lost, and none is sent twice but those that were being sent at that moment; they are counted as uncertain.

A letter goes to the queue or function where it comes from. Letters of Lambda's DeadLetterConfig and of SNS do not say that, and some of others: they go to the queue of the configuration, or --to names their target. A function gets the event as it was; a queue gets the body as it was and the sender's attributes.

It needs sqs:ReceiveMessage, sqs:ChangeMessageVisibility, sqs:DeleteMessage and sqs:GetQueueAttributes on the dead-letter queue; sqs:SendMessage, sqs:GetQueueAttributes and sqs:GetQueueUrl on the target, or lambda:InvokeFunction.

Without filters, every letter is chosen. An --ids file without ids chooses none: nothing is moved, and there is no run.

Exits with 0 if every letter of the set was moved, with 9 if some were not, and with 5 if a queue can't be used.";

/// Move dead letters back: some or all, at a rate, in growing steps
///
/// Each letter is sent to where it comes from, and then deleted. A letter that its target does not accept stays in the dead-letter queue, with the reason in the journal. host/docs/operate/redrive.md explains more.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The dead-letter queue: its URL or ARN; or the name of a queue in the configuration, for the dead-letter queues of that queue
    #[arg(value_name = "QUEUE", required_unless_present = "resume")]
    queue: Option<String>,

    #[command(flatten)]
    access: AccessArgs,

    /// Move every letter to this queue or function [default: where it comes from]
    #[arg(long, value_name = "URL|ARN|lambda:NAME")]
    to: Option<To>,

    /// Do what a run does up to its first write: count the letters, check their targets and sizes, and move nothing. The exit code is that of the run
    #[arg(long)]
    dry_run: bool,

    /// The most letters in a second, a minute or an hour, such as 50/s
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Growing steps: 10,100,all moves 10 letters, then 100 more, then the rest
    #[arg(long, value_name = "STEPS")]
    ramp: Option<Ramp>,

    /// Stop if more than this share of a step's letters failed again or were refused [default: 5% with --ramp]
    #[arg(long, value_name = "SHARE")]
    stop_at: Option<Share>,

    /// How long to wait after each step before looking for letters that came back [default: 1m with --ramp, else 0s]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    watch_for: Option<Duration>,

    /// How long to wait for letters that others hold, such as another command that lists them, before they count as missing; 0s for not at all [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    wait: Option<Duration>,

    /// Let the attempts go on where they were, instead of starting again
    #[arg(long)]
    keep_attempts: bool,

    /// With --keep-attempts: sign the envelopes with the first key of this file, the queue's envelope-key-file, so that its hosts know the letters by their original ids. That vouches for what the letters say (host/docs/operate/redrive.md)
    #[arg(long, value_name = "FILE", requires = "keep_attempts")]
    envelope_key_file: Option<PathBuf>,

    /// Write each letter to the file copies.jsonl in the run's folder before it is sent, as `dlq archive` does; `dlq restore` reads it
    #[arg(long)]
    keep_copies: bool,

    /// Edit each body in $VISUAL or $EDITOR before it is sent, one letter at a time; attributes stay as they are
    #[arg(long)]
    edit: bool,

    /// Let SQS move the letters itself (StartMessageMoveTask): all of them, without the means above except --to and --rate
    #[arg(long, conflicts_with_all = ["ramp", "stop_at", "watch_for", "wait", "keep_attempts", "envelope_key_file", "keep_copies", "edit", "dry_run"])]
    native: bool,

    /// Why, for the log of runs
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,

    /// Who you are, for the log of runs [default: the user and the host]
    #[arg(long, value_name = "NAME")]
    who: Option<String>,

    /// Start although the tag of the queue still names this run, which nobody can resume: letters that it has sent may arrive twice
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    despite: Option<String>,

    /// Go on with this run. Everything else is as it was when it started
    #[arg(long, value_name = "RUN", conflicts_with_all = ["queue", "to", "dry_run", "rate", "ramp", "stop_at", "watch_for", "wait", "keep_attempts", "envelope_key_file", "keep_copies", "edit", "native", "why", "config", "endpoint_url", "limit", "visibility_timeout", "reasons", "codes", "classes", "policies", "origins", "sources", "fingerprints", "texts", "values", "since", "until", "ids", "ids_file"])]
    resume: Option<String>,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    reading: ReadingArgs,

    #[command(flatten)]
    state: StateArgs,

    /// Print the result as JSON: one object for each run
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result<()> {
    match (&args.resume, &args.queue) {
        (Some(run), _) => resume(&args, run).await,
        (None, Some(queue)) => start(&args, queue).await,
        (None, None) => Err(Exit::Usage.because("name a queue, or a run")),
    }
}

/// Starts a run for each dead-letter queue.
async fn start(args: &Args, name: &str) -> Result<()> {
    // Read once: standard input has the ids for the first queue only.
    let filters = args.filters.filters()?;
    let opened = args.access.open(name).await?;
    let runs = args.state.runs(None).await?;
    for queue in &opened.queues {
        check(args, queue).await?;
        let wanted = Wanted {
            queue: Arc::clone(queue),
            run: String::new(),
            who: String::new(),
            despite: args.despite.clone(),
            is_shared: false,
        };
        wanted
            .check()
            .await
            .with_context(|| one_line(queue.url()))?;
        if !args.native {
            runs.check_settled(queue.url())?;
        }
    }
    if runs.is_shared() && args.envelope_key_file.is_some() {
        return Err(Exit::Usage.because(SHARED_KEYS));
    }
    if runs.is_shared() && args.keep_copies {
        return Err(RedriveError::NoCopies.into());
    }
    for queue in &opened.queues {
        let plan = plan::new(args, &filters, &opened, queue)?;
        let keys = keys(&plan)?;
        if filters.chooses_nothing() {
            report::nothing(queue.url(), args.json);
            continue;
        }
        if args.dry_run {
            let connections = &opened.connections;
            dry_run::run(args, &plan, &filters, queue, keys.as_ref(), connections).await?;
            continue;
        }
        if has_unused_keys(args, &opened) {
            eprintln!("{UNSIGNED}");
        }
        let folder = runs.create(&plan).await?;
        if args.native {
            native::run(args, &plan, &opened.connections, &folder).await?;
        } else {
            carry_out(args, plan, &opened.connections, queue, folder).await?;
        }
    }
    Ok(())
}

/// Why a run that operators share has no key.
const SHARED_KEYS: &str = "--envelope-key-file is a file of this machine, and a run that is kept in a bucket is resumed on others: keep the run in a folder (--state)";

/// The filters of a plan.
pub(super) fn filters(plan: &Plan) -> Result<Filters> {
    Filters::of_flags(&plan.filters)
        .map_err(|error| Exit::Usage.because(format!("the plan of the run {}: {error}", plan.run)))
}

/// The keys of a plan, read before anything is done.
fn keys(plan: &Plan) -> Result<Option<EnvelopeKeys>> {
    let path = plan.envelope_key_file.as_deref();
    path.map(EnvelopeKeys::of_file)
        .transpose()
        .map_err(|error| Exit::Usage.because(format!("--envelope-key-file: {error}")))
}

/// Whether the queue's hosts have keys, and the letters keep their attempts without one.
fn has_unused_keys(args: &Args, opened: &DeadLetterQueues) -> bool {
    let source = opened.source.as_ref().map(|it| it.url());
    let has_keys = opened.config.iter().any(|config| {
        let mut queues = config.queues.iter();
        let queue = queues.find(|queue| Some(queue.url.as_str()) == source);
        queue.is_some_and(|queue| queue.options.envelope_key_file.is_some())
    });
    args.keep_attempts && has_keys && args.envelope_key_file.is_none()
}

/// Refuses what can have no effect.
async fn check(args: &Args, queue: &Arc<dyn Queue>) -> Result<()> {
    let description = queue.describe().await.map_err(RedriveError::from);
    let description = description.with_context(|| one_line(queue.url()))?;
    if description.fifo && args.keep_attempts {
        return Err(Exit::Usage.because(
            "--keep-attempts has no effect on a FIFO queue: its consumers count attempts in memory, and would start again. Leave it out",
        ));
    }
    Ok(())
}

async fn resume(args: &Args, run: &str) -> Result<()> {
    let runs = args.state.runs(Some(run)).await?;
    let folder = state::find(&runs, run)?;
    let plan = folder.plan()?;
    if plan.native {
        return Err(Exit::Usage.because(format!("the run {run} is SQS's own: start another one")));
    }
    if folder.is_shared() && plan.envelope_key_file.is_some() {
        return Err(Exit::Usage.because(SHARED_KEYS));
    }
    let connections = Arc::new(Connections::new(plan.endpoint_url.clone()));
    let queue = connections.by_url(&plan.queue).await;
    carry_out(args, plan, &connections, &queue, folder).await
}

/// Works on a run, and says what it has done.
async fn carry_out(
    args: &Args,
    plan: Plan,
    connections: &Arc<Connections>,
    queue: &Arc<dyn Queue>,
    folder: RunFolder,
) -> Result<()> {
    let stop = stop_on_signal(STOPPING)?;
    let interval = match &plan.rate {
        Some(rate) => {
            let rate: Rate = rate.parse().map_err(|error| {
                Exit::Usage.because(format!("the plan's rate `{rate}`: {error}"))
            })?;
            Some(rate.interval())
        }
        None => None,
    };
    let editor = if plan.edit {
        Some(EditorProgram::of_environment(folder.path())? as Arc<_>)
    } else {
        None
    };
    let place = folder.place();
    eprintln!("run {}: {} ({place})", plan.run, one_line(&plan.queue),);
    let activity = Arc::<Activity>::default();
    let setup = Setup {
        queue: Arc::clone(queue),
        connections: Arc::clone(connections),
        folder,
        checked: None,
        filters: filters(&plan)?,
        interval,
        editor,
        keys: keys(&plan)?,
        who: args.who.clone().unwrap_or_else(state::user),
        despite: args.despite.clone(),
        activity: Arc::clone(&activity),
        stop,
    };
    traces::start(None, "backstop")?;
    let shown = Shown::start(activity, plan.edit);
    let summary = redrive::run(setup).await;
    shown.stop().await;
    traces::end().await;
    let summary = summary.with_context(|| one_line(&plan.queue))?;
    report::summary(&plan, &summary, args.json);
    ended(&plan, &summary)
}

/// The exit code of a run.
fn ended(plan: &Plan, summary: &Summary) -> Result<()> {
    let run = &plan.run;
    let left = summary.counts.refused + summary.ended.missing.unwrap_or(0);
    match summary.ended.outcome {
        Outcome::Done if left == 0 => Ok(()),
        Outcome::Done => Err(Exit::Undelivered.because(format!(
            "{} not moved: `backstop dlq runs {run}` says why",
            super::reading::letters(left)
        ))),
        Outcome::Stopped | Outcome::Failed => Err(Exit::Undelivered.because(format!(
            "the run was stopped: {}. The other letters are as they were; `backstop dlq redrive --resume {run}` goes on",
            summary.ended.text.as_deref().unwrap_or("an error")
        ))),
        Outcome::Interrupted => Err(Exit::Undelivered.because(format!(
            "{}: `backstop dlq redrive --resume {run}` goes on",
            summary.ended.text.as_deref().unwrap_or("interrupted")
        ))),
    }
}
