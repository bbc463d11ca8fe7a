//! The retry budget: a bucket of tokens that any number of retriers share.
//!
//! While a dependency fails, retries multiply the load on it. A budget bounds them: each retry takes tokens, and only successes and time bring tokens back. A call whose retry finds too few of them ends with [`RetryError::BudgetExhausted`](crate::RetryError::BudgetExhausted) at once.
//!
//! # Rules
//!
//! - A **retry** takes its cost when it is decided, before its delay. The cost depends on the class of the error. A first attempt is free.
//! - A retry that **succeeds** gives back what it took. A first attempt that succeeds adds [`first_success`](BudgetSettings::first_success).
//! - A retry that **fails** has used its tokens up.
//! - A call that is **dropped** while it waits gives back what its retry took, since no request was sent. One that is dropped during the attempt does not: the request has reached the dependency. A retry that finds the deadline over after its delay gives its tokens back too.
//! - **Time** adds [`refill_per_second`](BudgetSettings::refill_per_second).
//! - The bucket never holds more than its **capacity**.
//! - With too few tokens, a retry may come from the **floor**: [`floor_per_second`](BudgetSettings::floor_per_second) retries a second over all retriers, saved up for one second. Otherwise a program with few calls could never retry again after an outage. Such a retry takes no tokens; if it succeeds, it adds what a first success adds.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use backstop_core::budget::{Bucket, Taken};
use backstop_core::decision::ErrorClass;
use metrics::{Counter, Gauge};

pub use backstop_core::budget::BudgetSettings;

use crate::telemetry;

/// A retry budget, shared by all of its clones. See the [rules](crate::budget).
///
/// ```
/// use backstop_retry::{Budget, Retrier};
///
/// let budget = Budget::aws_2_1();
/// let reads = Retrier::builder().name("reads").budget(&budget).build()?;
/// let writes = Retrier::builder().name("writes").budget(&budget).build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    name: Arc<str>,
    bucket: Bucket,
    left: Gauge,
    refusals: Counter,
}

impl Budget {
    /// A full budget with these numbers. `name` is the label of its metrics.
    pub fn new(name: &str, settings: BudgetSettings) -> Self {
        let name: Arc<str> = name.into();
        let budget = Self(Arc::new(Shared {
            bucket: Bucket::new(settings),
            left: telemetry::budget_tokens(&name),
            refusals: telemetry::budget_refusals(&name),
            name,
        }));
        budget.0.show();
        budget
    }

    /// A budget with the numbers of [`BudgetSettings::AWS_2_0`], named `aws-2.0`.
    pub fn aws_2_0() -> Self {
        Self::new("aws-2.0", BudgetSettings::AWS_2_0)
    }

    /// A budget with the numbers of [`BudgetSettings::AWS_2_1`], named `aws-2.1`.
    pub fn aws_2_1() -> Self {
        Self::new("aws-2.1", BudgetSettings::AWS_2_1)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its numbers.
    pub fn settings(&self) -> &BudgetSettings {
        self.0.bucket.settings()
    }

    /// The tokens that are left. Time that has passed since the last retry is not included.
    pub fn left(&self) -> f64 {
        self.0.bucket.left()
    }

    /// Takes what a retry after an error of this class costs. `None` if there are too few tokens and the floor is used up.
    pub(crate) fn take(&self, class: &ErrorClass, now: Instant) -> Option<Reservation> {
        let shared = &self.0;
        let taken = shared.bucket.take(class, now);
        shared.show();
        let Some(taken) = taken else {
            shared.refusals.increment(1);
            return None;
        };
        Some(Reservation {
            shared: Arc::clone(shared),
            taken,
            is_sent: false,
        })
    }

    /// Adds what a successful first attempt adds. Costs one load if the bucket is full.
    pub(crate) fn first_succeeded(&self) {
        self.0.bucket.first_succeeded();
        self.0.show();
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.0.name)
            .field("left", &self.left())
            .field("settings", self.0.bucket.settings())
            .finish()
    }
}

impl Shared {
    /// Shows what is left in the metrics.
    fn show(&self) {
        self.left.set(self.bucket.left());
    }
}

/// What a retry took. Dropped before the retry is [sent](Self::send), it gives everything back.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    taken: Taken,
    is_sent: bool,
}

impl Reservation {
    /// The retry's attempt begins: unless it succeeds, its tokens are used up.
    pub(crate) fn send(&mut self) {
        self.is_sent = true;
    }

    /// The retry succeeded.
    pub(crate) fn succeeded(mut self) {
        // It gives back what it took here, and no second time when it is dropped.
        self.is_sent = true;
        self.shared.bucket.succeeded(self.taken);
        self.shared.show();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_sent {
            self.shared.bucket.give_back(self.taken);
            self.shared.show();
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
