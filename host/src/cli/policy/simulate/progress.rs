//! How far a simulation has come: a bar on stderr, on a terminal alone.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many steps. It is gone when it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn start(steps: usize, what: &'static str) -> Self {
        let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar} {human_pos} of {human_len}, {eta} to go",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(what);
        Self(bar)
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
