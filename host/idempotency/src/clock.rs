//! The time, as the store's users read it and wait in it.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use backstop_core::failure::Timestamp;

/// A wait. It ends when its time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time of day and waits. [`TokioClock`] is the default.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time of day. Leases compare it with that of other machines, so their clocks have to be set.
    fn now(&self) -> Timestamp;

    /// Waits this long.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// The machine's time of day and tokio's timers.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        backstop_core::clock::now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
