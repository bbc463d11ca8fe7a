//! The time of one call: the time of day, which does not go back while the call lasts.

use std::time::{Duration, Instant};

use backstop_core::failure::Timestamp;
use backstop_time::{Clock, Sleep};

/// The time of day, from the start of a call on. If the machine's clock is set back, it goes on as if it had not been: leases and deadlines end when they would have.
#[derive(Debug)]
pub(crate) struct CallTime<'a> {
    clock: &'a dyn Clock,
    began: (Instant, Timestamp),
}

impl<'a> CallTime<'a> {
    pub(crate) fn begin(clock: &'a dyn Clock) -> Self {
        Self {
            clock,
            began: (clock.now(), clock.time()),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let (instant, time) = self.began;
        let since = self.clock.now().saturating_duration_since(instant);
        self.clock.time().max(time.plus(since))
    }

    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        self.clock.sleep(duration)
    }
}
