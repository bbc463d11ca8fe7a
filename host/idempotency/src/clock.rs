//! The time, as the store's users read it and wait in it.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use backstop_core::failure::Timestamp;

/// A wait. It ends when its time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time of day and waits. [`TokioClock`] is the default.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_core::failure::Timestamp;
/// use backstop_idempotency::{Clock, Idempotency, MemoryStore, Sleep};
///
/// /// A test that lasts no time.
/// #[derive(Debug)]
/// struct Fixed;
///
/// impl Clock for Fixed {
///     fn now(&self) -> Timestamp {
///         Timestamp(1_767_225_600_000)
///     }
///
///     fn sleep(&self, _: Duration) -> Sleep {
///         Box::pin(std::future::pending())
///     }
/// }
///
/// let idempotency = Idempotency::builder(MemoryStore::default(), "orders").clock(Fixed).build()?;
/// # Ok::<(), backstop_idempotency::BuildError>(())
/// ```
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
