//! How far the work has come: a bar on stderr, on a terminal alone.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use backstop_core::clock;

/// How long nothing may be seen of a reading.
const DELAY: Duration = Duration::from_secs(1);

/// A bar of so many steps. It is gone when it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn start(steps: usize, what: &'static str) -> Self {
        let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
        Self(styled(
            bar,
            what,
            "{prefix} {wide_bar} {human_pos} of {human_len}, {eta} to go",
        ))
    }

    pub(super) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// How much of some files has been read. Shown once that takes longer than a moment.
pub(super) struct Reading {
    bar: Progress,
    started: Instant,
}

impl Reading {
    /// `bytes` is how much there is in all, where that is known.
    pub(super) fn start(bytes: Option<u64>, what: &'static str) -> Self {
        let hidden = ProgressDrawTarget::hidden();
        let template = match bytes {
            Some(_) => "{prefix} {wide_bar} {bytes} of {total_bytes}, {eta} to go",
            None => "{prefix} {spinner} {bytes}",
        };
        let bar = ProgressBar::with_draw_target(bytes, hidden);
        Self {
            bar: Progress(styled(bar, what, template)),
            started: clock::instant(),
        }
    }

    /// So many bytes have been read by now.
    pub(super) fn at(&self, bytes: u64) {
        let bar = &self.bar.0;
        if bar.is_hidden() && self.started.elapsed() > DELAY {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_position(bytes);
    }
}

fn styled(bar: ProgressBar, what: &'static str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(what);
    bar
}
