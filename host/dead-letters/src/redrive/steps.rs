//! The steps of a run: each moves letters, and then looks for those that came back. A long step looks in between, too.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RedriveError;
use super::activity::Phase;
use super::entry::{Entry, Outcome};
use super::ledger::Ledger;
use super::pass::{self, Letters, PassEnd};
use super::watch::{Failures, check_queues, wait};
use super::work::Work;

/// A check during a step takes at most this part of the time between two checks, since it holds every letter of the queue.
const CHECK_SHARE: u32 = 10;

/// Fewer letters than these of a step that goes on count as so many: one that fails early is no reason to stop.
const FEW: u64 = 20;

/// How the steps have ended.
pub(super) struct StepsEnd {
    pub(super) outcome: Outcome,
    pub(super) text: Option<String>,
    /// Whether every letter of the set was received that could be.
    pub(super) is_exhausted: bool,
    /// Whether others still held letters then: nobody knows if these are gone.
    pub(super) is_held: bool,
}

impl StepsEnd {
    fn new(outcome: Outcome, text: Option<String>) -> Self {
        Self {
            outcome,
            text,
            is_exhausted: false,
            is_held: false,
        }
    }

    fn interrupted() -> Self {
        Self::new(Outcome::Interrupted, None)
    }

    fn full() -> Self {
        let text = "the queue has more than 100,000 letters that are not in the set: SQS lets nobody receive more at the same time";
        Self::new(Outcome::Failed, Some(text.to_owned()))
    }
}

/// All steps. `grace` is how long letters may be invisible that an earlier process held.
pub(super) async fn steps(work: &Arc<Work>, grace: Duration) -> Result<StepsEnd, RedriveError> {
    let until = Instant::now() + grace;
    let ends = work.plan.ramp.ends();
    let has_limit = ends.first().is_some_and(|end| *end < u64::MAX);
    // What an earlier process has sent, or was sending, belongs to the steps that were begun, and comes before further letters. Those of it that are gone must not be replaced by others.
    if has_limit && work.ledger(Ledger::unsettled) > 0 {
        let activity = &work.setup.activity;
        activity.change(|it| it.phase = Phase::Moving(0));
        match pass::run(work, Letters::Unsettled, until, None).await? {
            PassEnd::Stopped => return Ok(StepsEnd::interrupted()),
            PassEnd::Full => return Ok(StepsEnd::full()),
            PassEnd::Empty => work.note_gone().await?,
            PassEnd::Quota | PassEnd::Paused | PassEnd::Held => {}
        }
    }
    // A resumed run counts from the last check: what failed before was a reason to stop, and somebody has resumed it.
    let mut before = Failures::at_last_watch(work);
    for (step, end) in ends.into_iter().enumerate() {
        let last = match move_letters(work, step, end, until, &before).await? {
            ControlFlow::Break(end) => return Ok(end),
            ControlFlow::Continue(last) => last,
        };
        let is_watched = work.ledger(|it| it.watched.contains(&step));
        if !work.plan.watch.is_zero() && !is_watched {
            if !wait(work, step).await {
                return Ok(StepsEnd::interrupted());
            }
            let (now, is_complete) = check_queues(work).await?;
            if work.setup.stop.is_cancelled() {
                return Ok(StepsEnd::interrupted());
            }
            if !is_complete && work.plan.stop_at.is_some() {
                let text = "the dead-letter queues could not be read to their ends, so nobody knows how many letters failed again".to_owned();
                return Ok(StepsEnd::new(Outcome::Stopped, Some(text)));
            }
            if let Some(end) = classify(work, step, &now, &before, false).await? {
                return Ok(end);
            }
            before = now;
        }
        if matches!(last, PassEnd::Empty | PassEnd::Held) {
            return Ok(StepsEnd {
                is_exhausted: true,
                is_held: last == PassEnd::Held,
                ..StepsEnd::new(Outcome::Done, None)
            });
        }
    }
    Ok(StepsEnd::new(Outcome::Done, None))
}

/// Moves the letters of a step. Breaks off if the run has ended. If that takes long, it looks in between for letters that came back, so that a bad cause does not go on for hours.
async fn move_letters(
    work: &Arc<Work>,
    step: usize,
    end: u64,
    until: Instant,
    before: &Failures,
) -> Result<ControlFlow<StepsEnd, PassEnd>, RedriveError> {
    let (plan, has_own_redrive) = (&work.plan, work.description.redrive.is_some());
    // Each check is a receive of every letter, which counts where a redrive policy counts receives.
    let is_checked = plan.stop_at.is_some() && !plan.watch.is_zero() && !has_own_redrive;
    let mut next = is_checked.then(|| Instant::now() + plan.watch);
    let mut last = PassEnd::Quota;
    loop {
        let left = end.saturating_sub(work.ledger(Ledger::taken));
        if left == 0 || !matches!(last, PassEnd::Quota | PassEnd::Paused) {
            break;
        }
        let activity = &work.setup.activity;
        activity.change(|it| it.phase = Phase::Moving(step));
        last = pass::run(work, Letters::Further(left), until, next).await?;
        if last != PassEnd::Paused {
            continue;
        }
        let started = Instant::now();
        let (now, _) = check_queues(work).await?;
        if work.setup.stop.is_cancelled() {
            return Ok(ControlFlow::Break(StepsEnd::interrupted()));
        }
        if let Some(end) = classify(work, step, &now, before, true).await? {
            return Ok(ControlFlow::Break(end));
        }
        next = Some(Instant::now() + plan.watch.max(started.elapsed() * CHECK_SHARE));
    }
    Ok(match last {
        PassEnd::Stopped => ControlFlow::Break(StepsEnd::interrupted()),
        PassEnd::Full => ControlFlow::Break(StepsEnd::full()),
        PassEnd::Quota | PassEnd::Paused | PassEnd::Empty | PassEnd::Held => {
            ControlFlow::Continue(last)
        }
    })
}

/// Notes what a check has found. Returns the end of the run if too many letters failed.
async fn classify(
    work: &Work,
    step: usize,
    now: &Failures,
    before: &Failures,
    is_early: bool,
) -> Result<Option<StepsEnd>, RedriveError> {
    let (taken, failed) = now.since(before);
    let watched = Entry::Watched {
        at: work.setup.queue.now(),
        step,
        taken,
        failed,
        is_early,
    };
    work.record(&[watched]).await?;
    let counted = if is_early { taken.max(FEW) } else { taken };
    let exceeded = work
        .plan
        .stop_at
        .filter(|share| share.is_exceeded(failed, counted));
    Ok(exceeded.map(|share| {
        let text = format!(
            "{failed} of {taken} letters failed again or were refused, which is more than {share}"
        );
        StepsEnd::new(Outcome::Stopped, Some(text))
    }))
}
