//! The plan of a new run, from the flags.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::share::Share;
use backstop_dead_letters::redrive::{DEFAULT_WAIT, Plan, Ramp, To};
use backstop_dead_letters::{Attempts, Filters};
use backstop_queue::{Queue, VisibilityTimeout};

use super::super::queue::DeadLetterQueues;
use super::{Args, state};
use crate::error::{Exit, Result};

/// How long letters stay invisible if a run is killed.
const VISIBILITY: VisibilityTimeout = VisibilityTimeout::from_seconds(60);

/// How long to look for letters that come back after a step.
const WATCH: Duration = Duration::from_secs(60);

/// The share of failing letters at which a run with steps stops.
const STOP_AT: &str = "5%";

/// The plan of a run for this queue, which has been asked for something before: its answers say what time it is at SQS.
pub(super) fn new(
    args: &Args,
    filters: &Filters,
    opened: &DeadLetterQueues,
    queue: &Arc<dyn Queue>,
) -> Result<Plan> {
    if args.native && !filters.is_empty() {
        return Err(Exit::Usage.because("--native moves all letters: SQS can't choose"));
    }
    if args.stop_at.is_some() && args.ramp.is_none() && args.watch_for.is_none() {
        return Err(Exit::Usage.because(
            "--stop-at needs --ramp, or --watch-for: letters that came back are looked for after a step",
        ));
    }
    let default_stop: Option<Share> = STOP_AT.parse().ok();
    let reading = args.reading.options();
    let started = queue.now();
    let others = opened.queues.iter().filter(|it| it.url() != queue.url());
    let default_to = opened.source.as_ref();
    Ok(Plan {
        version: 1,
        run: Plan::new_id(started),
        started,
        who: args.who.clone().unwrap_or_else(state::user),
        why: args.why.clone(),
        queue: queue.url().to_owned(),
        endpoint_url: opened.endpoint_url.clone(),
        filters: filters.flags(),
        to: args.to.clone(),
        default_to: default_to.map(|source| To::Queue(source.url().to_owned())),
        watched: others.map(|it| it.url().to_owned()).collect(),
        attempts: Attempts::keep_if(args.keep_attempts),
        envelope_key_file: args
            .envelope_key_file
            .as_ref()
            .map(std::path::absolute)
            .transpose()?,
        rate: args.rate.map(|rate| rate.to_string()),
        stop_at: args
            .stop_at
            .or(default_stop.filter(|_| args.ramp.is_some())),
        watch: args.watch_for.unwrap_or(match args.ramp {
            Some(_) => WATCH,
            None => Duration::ZERO,
        }),
        ramp: args.ramp.clone().unwrap_or_else(Ramp::all),
        wait: args.wait.unwrap_or(DEFAULT_WAIT),
        keep_copies: args.keep_copies,
        edit: args.edit,
        native: args.native,
        visibility: reading.visibility.unwrap_or(VISIBILITY).seconds(),
        most: reading.most,
    })
}
