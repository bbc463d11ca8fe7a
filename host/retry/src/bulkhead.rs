//! The bulkhead: how many attempts may be under way at once, over all retriers that share it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use metrics::{Counter, Gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;
use crate::telemetry;

/// Limits the attempts that are under way at once, so that one slow dependency does not hold all of a program's tasks, connections or memory. Shared by all of its clones.
///
/// An attempt that finds no place free waits for one, first come, first served, until the deadline of its call. A call that waits for its next attempt has no place, and one that is dropped gives it back.
///
/// ```
/// use backstop_retry::{Bulkhead, Retrier};
///
/// let bulkhead = Bulkhead::new("payments", 20);
/// let patient = Retrier::builder().name("reports").bulkhead(&bulkhead).build()?;
/// // Shares the places, and fails at once with `RetryError::BulkheadFull` if none is free.
/// let hasty = Retrier::builder().name("checkout").bulkhead(&bulkhead.clone().without_waiting()).build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Bulkhead {
    shared: Arc<Shared>,
    waits: bool,
}

struct Shared {
    name: Arc<str>,
    places: Arc<Semaphore>,
    in_use: Gauge,
    refusals: Counter,
}

impl Bulkhead {
    /// At most so many attempts at once, at least one. `name` is the label of its metrics.
    pub fn new(name: &str, most: u32) -> Self {
        let name: Arc<str> = name.into();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let in_use = telemetry::bulkhead_in_use(&name);
        in_use.set(0);
        Self {
            shared: Arc::new(Shared {
                places: Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))),
                in_use,
                refusals: telemetry::bulkhead_refusals(&name),
                name,
            }),
            waits: true,
        }
    }

    /// The same places, for retriers whose calls fail at once if none is free.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The places that are free.
    pub fn free(&self) -> usize {
        self.shared.places.available_permits()
    }

    /// Takes a place, or returns the wait for one if its calls wait.
    pub(crate) fn enter(&self) -> Result<Place, Result<Wait, Refusal>> {
        let shared = Arc::clone(&self.shared);
        let places = Arc::clone(&shared.places);
        if let Ok(permit) = Arc::clone(&places).try_acquire_owned() {
            return Ok(Place::new(permit, shared));
        }
        if !self.waits {
            shared.refusals.increment(1);
            return Err(Err(Refusal {
                by: Arc::clone(&shared.name),
                next_probe: None,
            }));
        }
        Err(Ok(Box::pin(async move {
            match places.acquire_owned().await {
                Ok(permit) => Place::new(permit, shared),
                Err(_) => unreachable!("nobody closes it"),
            }
        })))
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead")
            .field("name", &self.shared.name)
            .field("free", &self.free())
            .field("waits", &self.waits)
            .finish()
    }
}

/// The wait for a place.
pub(crate) type Wait = Pin<Box<dyn Future<Output = Place> + Send>>;

/// A place of a bulkhead, given back when it is dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn new(permit: OwnedSemaphorePermit, shared: Arc<Shared>) -> Self {
        shared.in_use.increment(1);
        Self {
            shared,
            _permit: permit,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.in_use.decrement(1);
    }
}

#[cfg(test)]
#[path = "bulkhead_tests.rs"]
mod tests;
