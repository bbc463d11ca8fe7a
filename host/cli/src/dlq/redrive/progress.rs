//! The progress of a run: a line on a terminal, log lines elsewhere.

use std::sync::Arc;
use std::time::Duration;

use backstop_dead_letters::redrive::{Activity, Phase, Snapshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::terminal::{Progress, count};
use crate::time::whole_seconds;

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows what a run is doing, until it is stopped.
pub(super) struct Shown(JoinHandle<()>);

impl Shown {
    /// Nothing is drawn while an editor has the terminal.
    pub(super) fn start(activity: Arc<Activity>, edits: bool) -> Self {
        Self(tokio::spawn(async move {
            let shown = if edits {
                Progress::hidden()
            } else {
                Progress::text(None, 0)
            };
            let mut phase = None;
            let (mut moved, mut second) = (0, 0);
            for round in 0_u64.. {
                let now = activity.snapshot();
                if round.is_multiple_of(5) {
                    second = now.counts.moved.saturating_sub(moved);
                    moved = now.counts.moved;
                }
                let text = text(&now, second);
                if phase != Some(kind(now.phase)) && shown.is_hidden() {
                    tracing::info!("{text}");
                }
                shown.say(text);
                phase = Some(kind(now.phase));
                sleep(INTERVAL).await;
            }
        }))
    }

    /// Removes the line.
    pub(super) async fn stop(self) {
        self.0.abort();
        let _ = self.0.await;
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
    let of = counts
        .letters
        .map(|letters| format!(" of {}", count(letters)));
    let moved = format!("{}{} moved", count(counts.moved), of.unwrap_or_default());
    let mut text = match now.phase {
        Phase::Reading => format!("{} letters read, to fix the set", count(now.read)),
        Phase::Moving(step) => format!("step {}: {moved}, {}/s", step + 1, count(in_a_second)),
        Phase::Watching(step, left) => format!(
            "step {}: {moved}; looking for letters that came back in {}",
            step + 1,
            whole_seconds(left)
        ),
        Phase::WaitingForOthers(0) => format!(
            "{moved}; waiting in case others hold the rest: the queue's numbers may be a minute late"
        ),
        Phase::WaitingForOthers(held) => {
            format!(
                "{moved}; waiting for letters that others hold: about {}",
                count(held)
            )
        }
        Phase::Looking => format!("{moved}; looking for letters that came back"),
    };
    for (number, what) in [
        (counts.refused, "refused"),
        (counts.uncertain, "uncertain"),
        (counts.failed_again, "failed again"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {} {what}", count(number)));
        }
    }
    text
}
