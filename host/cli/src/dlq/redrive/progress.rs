//! The progress of a run: a line on a terminal, log lines elsewhere.

use std::sync::Arc;
use std::time::Duration;

use backstop_dead_letters::redrive::{Phase, Progress, Snapshot};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::time::whole_seconds;

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows the progress until it is dropped.
pub(super) struct Shown {
    bar: ProgressBar,
    task: JoinHandle<()>,
}

impl Shown {
    /// Nothing is drawn while an editor has the terminal.
    pub(super) fn start(progress: &Arc<Progress>, edits: bool) -> Self {
        let bar = if edits {
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let (progress, shown) = (Arc::clone(progress), bar.clone());
        let task = tokio::spawn(async move {
            let mut phase = None;
            let (mut moved, mut second) = (0, 0);
            for round in 0_u64.. {
                let now = progress.snapshot();
                if round.is_multiple_of(5) {
                    second = now.counts.moved.saturating_sub(moved);
                    moved = now.counts.moved;
                }
                shown.set_message(text(&now, second));
                shown.tick();
                if phase != Some(kind(now.phase)) && shown.is_hidden() {
                    tracing::info!("{}", text(&now, second));
                }
                phase = Some(kind(now.phase));
                sleep(INTERVAL).await;
            }
        });
        Self { bar, task }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

/// The phase without its times.
fn kind(phase: Phase) -> (u8, usize) {
    match phase {
        Phase::Reading => (0, 0),
        Phase::Moving(step) => (1, step),
        Phase::Watching(step, _) => (2, step),
        Phase::Looking => (3, 0),
        Phase::WaitingForOthers(_) => (4, 0),
    }
}

fn text(now: &Snapshot, in_a_second: u64) -> String {
    let counts = &now.counts;
    let of = match counts.letters {
        Some(letters) => format!(" of {}", HumanCount(letters)),
        None => String::new(),
    };
    let mut text = match now.phase {
        Phase::Reading => format!("{} letters read, to fix the set", HumanCount(now.read)),
        Phase::Moving(step) => format!(
            "step {}: {}{of} moved, {}/s",
            step + 1,
            HumanCount(counts.moved),
            HumanCount(in_a_second)
        ),
        Phase::Watching(step, left) => format!(
            "step {}: {}{of} moved; looking for letters that came back in {}",
            step + 1,
            HumanCount(counts.moved),
            whole_seconds(left)
        ),
        Phase::WaitingForOthers(0) => format!(
            "{}{of} moved; waiting in case others hold the rest: the queue's numbers may be a minute late",
            HumanCount(counts.moved)
        ),
        Phase::WaitingForOthers(held) => format!(
            "{}{of} moved; waiting for letters that others hold: about {}",
            HumanCount(counts.moved),
            HumanCount(u64::try_from(held).unwrap_or(u64::MAX))
        ),
        Phase::Looking => format!(
            "{}{of} moved; looking for letters that came back",
            HumanCount(counts.moved)
        ),
    };
    for (count, what) in [
        (counts.refused, "refused"),
        (counts.uncertain, "uncertain"),
        (counts.failed_again, "failed again"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {} {what}", HumanCount(count)));
        }
    }
    text
}
