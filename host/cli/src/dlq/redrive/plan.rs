//! The plan of a new run, from the flags.

use std::sync::Arc;

use backstop_dead_letters::redrive::{DEFAULT_VISIBILITY, DEFAULT_WAIT, Plan, Steps, To};
use backstop_dead_letters::{Attempts, Filters};
use backstop_queue::{Queue, VisibilityTimeout};

use super::super::queue::DeadLetterQueues;
use super::{Args, state};
use crate::error::{Exit, Result};

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
    let steps = Steps::of(args.ramp.clone(), args.stop_at, args.watch_for);
    let steps = steps.map_err(|error| {
        Exit::Usage.because(format!("--stop-at needs --ramp or --watch-for: {error}"))
    })?;
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
        stop_at: steps.stop_at,
        watch: steps.watch,
        ramp: steps.ramp,
        wait: args.wait.unwrap_or(DEFAULT_WAIT),
        keep_copies: args.keep_copies,
        edit: args.edit,
        native: args.native,
        visibility: reading
            .visibility
            .map_or(DEFAULT_VISIBILITY, VisibilityTimeout::seconds),
        most: reading.most,
    })
}
