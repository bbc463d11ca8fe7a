//! Clocks: what tells the time and waits.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use backstop_core::failure::Timestamp;

/// A wait. It ends when its time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time and waits. [`TokioClock`] is the default; a test can use tokio's paused time with it, or a [`TestClock`](crate::TestClock) without tokio.
///
/// A clock of your own, such as one for another runtime:
///
/// ```
/// use std::time::{Instant, SystemTime, UNIX_EPOCH};
///
/// use backstop_core::failure::Timestamp;
/// use backstop_time::{Clock, Sleep};
///
/// #[derive(Debug)]
/// struct Threads;
///
/// impl Clock for Threads {
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
///
///     fn time(&self) -> Timestamp {
///         let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
///         Timestamp(since.as_millis() as u64)
///     }
///
///     fn sleep_until(&self, until: Instant) -> Sleep {
///         Box::pin(async move { std::thread::sleep(until.saturating_duration_since(Instant::now())) })
///     }
/// }
/// ```
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time to measure durations with.
    fn now(&self) -> Instant;

    /// The time of day. Leases compare it with that of other machines, so their clocks have to be set.
    fn time(&self) -> Timestamp;

    /// Waits until this time.
    fn sleep_until(&self, until: Instant) -> Sleep;

    /// Waits this long.
    fn sleep(&self, duration: Duration) -> Sleep {
        match self.now().checked_add(duration) {
            Some(until) => self.sleep_until(until),
            None => Box::pin(std::future::pending()),
        }
    }

    /// Whether time moves on only when nothing else can happen. Then no other thread may be waited for, and policies are evaluated on the caller's.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// Tokio's timers. A call that waits needs a tokio runtime with its timers enabled; one that succeeds at once does not.
///
/// `tokio::time::pause` pauses this clock too, except for the time of day.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn time(&self) -> Timestamp {
        backstop_core::clock::now()
    }

    fn sleep_until(&self, until: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}
