//! Progress on stderr, shown on a terminal only.

use std::fmt::Write;
use std::time::{Duration, Instant};

use backstop_core::clock;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::rate;

/// Reading that takes less time shows no bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// How often a line is drawn that counts.
const TICK: Duration = Duration::from_millis(200);

/// A line about work under way. It disappears when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Since when it is hidden, if it waits to be shown.
    hidden_since: Option<Instant>,
}

impl Progress {
    /// Counts without a known end: `1,200 letters read, 400/s`.
    pub(crate) fn counting(what: &'static str) -> Self {
        let template = "{spinner} {human_pos} {prefix}, {rate}";
        let progress = Self::styled(ProgressBar::new_spinner(), template, what);
        progress.bar.enable_steady_tick(TICK);
        progress
    }

    /// Counts so many steps.
    pub(crate) fn steps(steps: impl TryInto<u64>, what: &'static str) -> Self {
        let template = "{prefix} {wide_bar} {human_pos} of {human_len}, {eta} to go";
        let steps = steps.try_into().unwrap_or(u64::MAX);
        Self::styled(ProgressBar::new(steps), template, what)
    }

    /// Counts the bytes read from files, of so many if that is known. Appears if reading takes longer than a moment.
    pub(crate) fn bytes(bytes: Option<u64>, what: &'static str) -> Self {
        let template = match bytes {
            Some(_) => "{prefix} {wide_bar} {bytes} of {total_bytes}, {eta} to go",
            None => "{prefix} {spinner} {bytes}",
        };
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        let mut progress = Self::styled(bar, template, what);
        progress.hidden_since = Some(clock::instant());
        progress
    }

    /// Shows texts, with a bar if the bytes of the input are known, of which `position` are done.
    pub(crate) fn text(length: Option<u64>, position: u64) -> Self {
        let (bar, template) = match length {
            Some(length) => {
                let bar = ProgressBar::new(length).with_position(position);
                (bar, "{wide_bar} {percent} %, {msg}, {eta} to go")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
        };
        let progress = Self::styled(bar, template, "");
        // Waiting work does not let the bar stand still.
        progress.bar.enable_steady_tick(TICK);
        progress.bar.reset_eta();
        progress
    }

    /// Shows nothing.
    pub(crate) fn hidden() -> Self {
        Self::styled(ProgressBar::hidden(), "", "")
    }

    fn styled(bar: ProgressBar, template: &str, what: &'static str) -> Self {
        let style = ProgressStyle::with_template(template)
            .map(|style| style.with_key("rate", write_rate))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(what);
        Self {
            bar,
            hidden_since: None,
        }
    }

    /// Counts more.
    pub(crate) fn add(&self, more: usize) {
        self.bar.inc(u64::try_from(more).unwrap_or_default());
    }

    /// Counts so many, all in all.
    pub(crate) fn set(&self, position: u64) {
        let waits = self.hidden_since.filter(|_| self.bar.is_hidden());
        if waits.is_some_and(|since| since.elapsed() > SHOW_AFTER) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(position);
    }

    /// Shows a text in place of the last one.
    pub(crate) fn say(&self, text: String) {
        self.bar.set_message(text);
    }

    /// How many a second have come, of so many.
    pub(crate) fn rate(&self, count: u64) -> u64 {
        rate(count, self.bar.elapsed())
    }

    /// Whether there is no terminal to show it on, or it waits to be shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }
}

/// How many in a second, as a whole number: `4,801/s`.
fn write_rate(state: &ProgressState, text: &mut dyn Write) {
    let _ = write!(text, "{}/s", HumanCount(rate(state.pos(), state.elapsed())));
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
