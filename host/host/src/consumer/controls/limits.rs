//! The limits of a queue that is served, changed by an operator or by its configuration.

use std::time::Duration;

use backstop_core::rate::Rate;
use tokio::time::Instant;

use super::Controls;
use super::pace::Pace;

/// A change of the limits of a queue that is served. What is `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NewLimits {
    /// The rate, or that there is none.
    pub(crate) rate: Option<Option<Rate>>,
    pub(crate) max_in_flight: Option<usize>,
}

impl Controls {
    /// Changes the limits until the host ends.
    pub(crate) fn set(&self, limits: NewLimits, by: &str) {
        if let Some(most) = limits.max_in_flight {
            self.budget.set_most(most);
            tracing::info!(
                queue = self.queue,
                by,
                "max-in-flight" = most,
                "a limit was changed"
            );
        }
        if let Some(rate) = limits.rate {
            let now = Instant::now();
            self.change(|state| state.pace = rate.map(|rate| Pace::new(rate, now)));
            let rate = rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
            tracing::info!(queue = self.queue, by, rate, "a limit was changed");
        } else {
            self.changed.send_replace(());
        }
    }

    /// How long the poll of an idle queue waits for a message.
    pub(crate) fn idle_poll(&self) -> Duration {
        self.state().idle_poll
    }

    /// How long attempts may go on after a stop.
    pub(crate) fn grace(&self) -> Duration {
        self.state().grace
    }

    pub(crate) fn set_idle_poll(&self, idle_poll: Duration) {
        self.state().idle_poll = idle_poll;
    }

    pub(crate) fn set_grace(&self, grace: Duration) {
        self.state().grace = grace;
    }
}
