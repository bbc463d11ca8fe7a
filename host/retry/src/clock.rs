//! The time, as the retrier reads it and waits in it.

use std::fmt;
use std::pin::Pin;
use std::time::Instant;

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
/// use backstop_retry::failure::Timestamp;
/// use backstop_retry::{Clock, Retrier, Sleep};
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
///
/// let retrier = Retrier::builder().clock(Threads).build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time to measure durations with.
    fn now(&self) -> Instant;

    /// The time of day.
    fn time(&self) -> Timestamp;

    /// Waits until this time.
    fn sleep_until(&self, until: Instant) -> Sleep;

    /// Whether time moves on only when nothing else can happen. Then no other thread may be waited for, and policies are evaluated on the caller's.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// Tokio's timers. A call that waits needs a tokio runtime with its timers enabled; one that succeeds at once does not.
///
/// With `tokio::time::pause` the retrier's time is paused too, except for the time of day.
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
