//! Progress bars on stderr, shown only on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use backstop_core::clock;

/// Reading that takes less time shows no bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// A bar that counts steps. It disappears when dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn start(steps: usize, label: &'static str) -> Self {
        let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
        Self(styled(
            bar,
            label,
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

/// A bar that counts bytes read from files. It appears if reading takes longer than a moment.
pub(crate) struct Reading {
    bar: Progress,
    started: Instant,
}

impl Reading {
    /// `bytes` is the total, if it is known.
    pub(crate) fn start(bytes: Option<u64>, label: &'static str) -> Self {
        let hidden = ProgressDrawTarget::hidden();
        let template = match bytes {
            Some(_) => "{prefix} {wide_bar} {bytes} of {total_bytes}, {eta} to go",
            None => "{prefix} {spinner} {bytes}",
        };
        let bar = ProgressBar::with_draw_target(bytes, hidden);
        Self {
            bar: Progress(styled(bar, label, template)),
            started: clock::instant(),
        }
    }

    /// Sets the number of bytes read so far.
    pub(crate) fn set(&self, bytes: u64) {
        let bar = &self.bar.0;
        if bar.is_hidden() && self.started.elapsed() > SHOW_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_position(bytes);
    }
}

fn styled(bar: ProgressBar, label: &'static str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(label);
    bar
}
