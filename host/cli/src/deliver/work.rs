//! The loop of a delivery: outcomes to the file, progress, checkpoints, and the end.

use std::time::{Duration, Instant};

use backstop_core::clock;
use backstop_deliver::{Counts, Delivery, Outcome, Status, Target};
use futures_util::StreamExt;

use super::checkpoint::{CheckpointFile, Job};
use super::lines::Input;
use super::retries::policy;
use super::source::Source;
use super::summary;
use super::undelivered::UndeliveredFile;
use super::{Format, Shared};
use crate::error::{Context, Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, count, println};

/// How often the state is written, and the bar is drawn.
const SAVE_EVERY: Duration = Duration::from_secs(1);
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Delivers the input to `target`. `endpoint` is the target's, if it is not one of AWS.
pub(super) async fn deliver<T: Target>(
    shared: Shared,
    target: T,
    endpoint: Option<String>,
    format: Format<T::Entry>,
) -> Result<()> {
    let mut input = Input::open(&shared.input)?;
    refuse_same_file(&shared)?;
    let _lock = input.lock(&shared.input)?;
    let mut undelivered = UndeliveredFile::open(&shared.undelivered)?;
    let job = Job {
        target: target.source().to_owned(),
        endpoint,
        lines: format.lines.clone(),
    };
    // Only now: another delivery could have written it before.
    let checkpoint_file = CheckpointFile::of(&shared.undelivered);
    let read = || checkpoint_file.read(&job, &shared.input, input.file.as_ref());
    let resumed = tokio::task::block_in_place(read)?;
    undelivered.begin(resumed.as_ref().map(|(it, _)| it.undelivered))?;
    let start = resumed.as_ref().map_or(0, |(it, _)| it.position);
    if let Some((checkpoint, hashes)) = &resumed {
        let line = checkpoint.line;
        tracing::info!(line, "going on with an interrupted delivery");
        input.resume(checkpoint, hashes)?;
    }
    let stop = stop_on_signal(
        "stopping: finishing the requests in flight and writing the rest; a second signal stops at once",
    )?;
    let delivery = Delivery::new(target)
        .policy(tokio::task::block_in_place(|| policy(&shared))?)
        .requests(shared.requests.get())
        .after_failure(shared.after_failure.into())
        .stop_when(stop.clone().cancelled_owned());
    let saver = Saver {
        file: input.length.is_some().then_some(checkpoint_file),
        job,
        input: std::path::absolute(&shared.input)?,
    };
    let progress = Progress::text(input.length, start);
    let resumed = resumed
        .as_ref()
        .map(|(it, hashes)| (it, hashes.position.clone()));
    let source = Source::new(input.read(), resumed, undelivered, format);
    let started = clock::instant();
    let mut outcomes = delivery
        .start(source.entries())
        .map_err(|error| Exit::Policy.because(error.to_string()))?;
    let (mut saved, mut drawn) = (started, started);
    saver.save(&source)?;
    while let Some(outcome) = outcomes.next().await {
        let why = reason(&outcome);
        source.settle(outcome.index, &outcome.entry, why);
        let now = clock::instant();
        if is_due(&mut drawn, now, DRAW_EVERY) {
            draw(&progress, outcomes.counts(), source.lock().position);
        }
        if is_due(&mut saved, now, SAVE_EVERY) {
            saver.save(&source)?;
        }
    }
    drop(progress);
    let stopped_by = outcomes.stopped_by().cloned();
    let counts = outcomes.counts();
    drop(outcomes);
    if stop.is_cancelled() || stopped_by.is_some() {
        let rest = source.leave_rest().await;
        source.lock().reasons.add_rest(rest);
    }
    let took = started.elapsed();
    let mut state = source.lock();
    state.undelivered.save()?;
    let (reasons, file) = (&state.reasons, state.undelivered.path());
    if shared.json {
        let summary = summary::as_json(counts, reasons, took, file, stopped_by.as_ref());
        println!("{summary}");
    } else {
        summary::print(counts, reasons, took, file);
    }
    if let Some(failure) = state.failure.take() {
        drop(state);
        saver.save(&source)?;
        let input = shared.input.display();
        return Err(failure).with_context(|| format!("can't read {input} to its end"));
    }
    saver.end();
    let undelivered = state.reasons.total();
    match (undelivered, stopped_by) {
        (0, _) => Ok(()),
        (_, Some(error)) => {
            let reason = format!("the delivery was stopped ({undelivered} undelivered): {error}");
            Err(Exit::Queue.because(reason))
        }
        (_, None) => Err(Exit::Undelivered.because(format!(
            "not everything was delivered: what is undelivered ({undelivered}) is in {}",
            shared.undelivered.display()
        ))),
    }
}

/// Shows the rate and what is undelivered.
fn draw(progress: &Progress, counts: Counts, position: u64) {
    if progress.is_hidden() {
        return;
    }
    progress.set(position);
    let undelivered = match counts.undelivered {
        0 => String::new(),
        number => format!(", {} undelivered", count(number)),
    };
    let rate = count(progress.rate(counts.delivered));
    let delivered = count(counts.delivered);
    progress.say(format!("{delivered} delivered, {rate}/s{undelivered}"));
}

/// Why an entry is undelivered: kind, code of the error, and text.
fn reason<E, R>(outcome: &Outcome<E, R>) -> Option<(&str, &str, String)> {
    let Status::Undelivered(why) = &outcome.status else {
        return None;
    };
    let code = why.error().map_or("", |error| &error.code);
    Some((why.as_str(), code, why.to_string()))
}

fn is_due(last: &mut Instant, now: Instant, every: Duration) -> bool {
    let is_due = now.duration_since(*last) >= every;
    if is_due {
        *last = now;
    }
    is_due
}

/// Otherwise the file would grow while it is read.
fn refuse_same_file(shared: &Shared) -> Result<()> {
    let canonical = |path: &std::path::Path| path.canonicalize().ok();
    let input = canonical(&shared.input);
    if input.is_some() && input == canonical(&shared.undelivered) {
        Err(Exit::Usage.because(
            "the input is the file of undelivered entries: name another one with --undelivered",
        ))
    } else {
        Ok(())
    }
}

/// Writes the state of a delivery from a regular file.
struct Saver {
    file: Option<CheckpointFile>,
    job: Job,
    input: std::path::PathBuf,
}

impl Saver {
    fn save<E>(&self, source: &Source<E>) -> Result<()> {
        let mut state = source.lock();
        state.undelivered.save()?;
        let Some(file) = &self.file else {
            return Ok(());
        };
        // What comes after a line that is not complete is not yet in the file.
        if state.undelivered.is_in_line() {
            return Ok(());
        }
        let checkpoint = state.checkpoint(&self.job, &self.input);
        drop(state);
        file.write(&checkpoint)
    }

    fn end(&self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}
