//! The maintenance windows of a queue, followed while it is served.

use std::time::Duration;

use backstop_core::clock;
use tokio::time::sleep;

use super::{Controls, Pause, State};
use crate::failure::Timestamp;
use crate::maintenance::{Look, Open, Window};
use crate::record::LifeEvent;

/// Who pauses a queue in a maintenance window.
const CONFIGURATION: &str = "the configuration";

impl Controls {
    /// Follows the windows, as long as it is polled. The clock is read at least every ten seconds, since it may be set.
    pub(in crate::consumer) async fn follow_windows(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let again = self.look_at_windows(clock::now());
            tokio::select! {
                biased;
                () = sleep(again) => {}
                // Other windows may have come.
                _ = changed.changed() => {}
            }
        }
    }

    /// Begins and ends what the windows say about this time of day. Returns when to look again.
    pub(in crate::consumer) fn look_at_windows(&self, now: Timestamp) -> Duration {
        let mut state = self.state();
        if state.windows.is_empty() && state.window.is_none() {
            return Duration::MAX;
        }
        let Look {
            open,
            missed,
            again,
        } = state.windows.look(now);
        let before = std::mem::replace(&mut state.window, open.clone());
        let is_new = before != open;
        if is_new {
            state.ramp = state.ramp.filter(|_| open.is_none());
            self.changed_to(&state);
        }
        let is_paused = state.is_paused();
        drop(state);
        if let Some(ended) = missed {
            self.log_missed(ended);
        }
        if is_new {
            self.log_window(before.is_some(), open, is_paused);
        }
        again
    }

    fn log_missed(&self, ended: Timestamp) {
        tracing::warn!(
            queue = self.queue,
            ended = ended.rfc3339(),
            "a maintenance window has passed unnoticed: the clock was set, or this host did not run"
        );
    }

    fn log_window(&self, was_open: bool, open: Option<Open>, is_paused: bool) {
        let queue = &self.queue;
        match &open {
            Some(Open { until, why, .. }) => self.happened(LifeEvent::Paused {
                by: CONFIGURATION.to_owned(),
                why: why.clone(),
                until: Some(*until),
            }),
            None if is_paused => {}
            None => self.happened(LifeEvent::Resumed {
                by: CONFIGURATION.to_owned(),
            }),
        }
        match open {
            Some(Open { until, why, .. }) if was_open => tracing::info!(
                queue,
                until = until.rfc3339(),
                why,
                "another maintenance window of the configuration is open"
            ),
            Some(Open { until, why, .. }) => tracing::info!(
                queue,
                until = until.rfc3339(),
                why,
                "a maintenance window of the configuration is open: the queue is not polled, and attempts under way end"
            ),
            None if is_paused => {
                tracing::info!(queue, "the maintenance window is over, and a pause goes on");
            }
            None => tracing::info!(
                queue,
                "the maintenance window is over: the queue is polled again"
            ),
        }
    }

    /// Other windows take the place of those that there were.
    pub(crate) fn set_windows(&self, windows: Vec<Window>) {
        self.state().windows.replace(windows);
        self.look_at_windows(clock::now());
        self.changed.send_replace(());
    }
}

impl State {
    /// The pause of an operator or the window that is open: what ends last.
    pub(super) fn pause(&self) -> Option<Pause> {
        let pause = self.pause.as_ref().map(|it| it.pause.clone());
        let window = self.window.as_ref().map(of_window);
        match (pause, window) {
            (Some(pause), Some(window)) => Some(if ends_later(&pause, &window) {
                pause
            } else {
                window
            }),
            (pause, window) => pause.or(window),
        }
    }

    /// Ends the windows that are open now.
    pub(super) fn end_windows(&mut self, now: Timestamp) {
        if self.window.take().is_some() {
            self.windows.end(now);
        }
    }
}

fn of_window(open: &Open) -> Pause {
    Pause {
        since: open.since,
        until: Some(open.until),
        why: open.why.clone(),
        by: CONFIGURATION.to_owned(),
    }
}

/// Whether a pause ends after another one. One without an end ends last.
fn ends_later(pause: &Pause, other: &Pause) -> bool {
    pause
        .until
        .is_none_or(|until| other.until.is_some_and(|other| until > other))
}
