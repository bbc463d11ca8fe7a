//! The progress bar on stderr, shown only on a terminal: rate, time left, and what is undelivered.

use std::time::Duration;

use backstop_deliver::Counts;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::bar::rate;

/// The bar. It disappears when dropped.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// `length` is the number of bytes of the input, if it is known.
    pub(super) fn start(length: Option<u64>, position: u64) -> Self {
        let (bar, template) = match length {
            Some(length) => {
                let bar = ProgressBar::new(length).with_position(position);
                (bar, "{wide_bar} {percent} %, {msg}, {eta} to go")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // Waiting entries do not let the bar stand still.
        bar.enable_steady_tick(Duration::from_millis(500));
        bar.reset_eta();
        Self { bar }
    }

    pub(super) fn update(&self, counts: Counts, position: u64) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(position);
        let undelivered = match counts.undelivered {
            0 => String::new(),
            count => format!(", {} undelivered", HumanCount(count)),
        };
        let rate = rate(counts.delivered, self.bar.elapsed());
        self.bar.set_message(format!(
            "{} delivered, {}/s{undelivered}",
            HumanCount(counts.delivered),
            HumanCount(rate)
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
