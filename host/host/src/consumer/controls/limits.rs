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
    /// The rate of each key, or that there is none.
    pub(crate) each_rate: Option<Option<Rate>>,
    /// The most attempts of each key at once, or that any number may be made.
    pub(crate) each_max_in_flight: Option<Option<usize>>,
}

impl Controls {
    /// Whether there are limits for each key, which can be changed.
    pub(crate) fn has_keys(&self) -> bool {
        self.each.is_set()
    }

    /// Changes the limits until the host ends.
    pub(crate) fn set(&self, limits: NewLimits, by: &str) {
        self.set_each(&limits, by);
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

    fn set_each(&self, new: &NewLimits, by: &str) {
        if new.each_rate.is_none() && new.each_max_in_flight.is_none() {
            return;
        }
        let now = self.each.set(|limits| {
            limits.rate = new.each_rate.unwrap_or(limits.rate);
            limits.max_in_flight = new.each_max_in_flight.unwrap_or(limits.max_in_flight);
        });
        let none = || "none".to_owned();
        tracing::info!(
            queue = self.queue,
            by,
            "each-rate" = now.rate.map_or_else(none, |rate| rate.to_string()),
            "each-max-in-flight" = now.max_in_flight.map_or_else(none, |most| most.to_string()),
            "a limit was changed"
        );
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
