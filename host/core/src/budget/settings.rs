//! The numbers of a retry budget.

use crate::decision::ErrorClass;
use crate::policy::BudgetName;

/// The numbers of a retry budget. Begin with one of AWS's two sets:
///
/// ```
/// use backstop_core::budget::{Bucket, BudgetSettings};
///
/// let settings = BudgetSettings::AWS_2_1.capacity(5_000).refill_per_second(10.0);
/// assert_eq!(Bucket::new(settings).left(), 5_000.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BudgetSettings {
    /// The most tokens, and how many there are at first.
    pub capacity: u32,
    /// The cost of a retry after a transient error.
    pub transient_cost: u32,
    /// The cost of a retry after a throttled one.
    pub throttled_cost: u32,
    /// The cost of a retry after an error of any other class.
    pub other_cost: u32,
    /// What a first attempt adds that succeeds.
    pub first_success: u32,
    /// Tokens that each second adds. Negative counts as zero.
    pub refill_per_second: f64,
    /// Retries that are possible in each second without tokens. Negative counts as zero.
    pub floor_per_second: f64,
}

impl BudgetSettings {
    /// The numbers of the AWS SDKs' standard retry mode 2.0, the Rust SDK's default (`aws-smithy-runtime`, `token_bucket.rs`): 500 tokens, 5 for a retry and 10 after a transient error. The SDK has no floor; here it is one retry a second.
    pub const AWS_2_0: Self = Self {
        capacity: 500,
        transient_cost: 10,
        throttled_cost: 5,
        other_cost: 5,
        first_success: 1,
        refill_per_second: 0.0,
        floor_per_second: 1.0,
    };

    /// The numbers of mode 2.1 (`AWS_NEW_RETRIES_2026`): 500 tokens, 14 for a retry and 5 after a throttled error. The SDK has no floor; here it is one retry a second.
    pub const AWS_2_1: Self = Self {
        transient_cost: 14,
        other_cost: 14,
        ..Self::AWS_2_0
    };

    /// The numbers with this name.
    pub const fn named(name: BudgetName) -> Self {
        match name {
            BudgetName::Aws2_0 => Self::AWS_2_0,
            BudgetName::Aws2_1 => Self::AWS_2_1,
        }
    }

    /// The same numbers with another capacity, in tokens.
    #[must_use]
    pub const fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = capacity;
        self
    }

    /// With another cost of a retry after a transient error, in tokens.
    #[must_use]
    pub const fn transient_cost(mut self, transient_cost: u32) -> Self {
        self.transient_cost = transient_cost;
        self
    }

    /// With another cost of a retry after a throttled one.
    #[must_use]
    pub const fn throttled_cost(mut self, throttled_cost: u32) -> Self {
        self.throttled_cost = throttled_cost;
        self
    }

    /// With another cost of a retry after an error of any other class.
    #[must_use]
    pub const fn other_cost(mut self, other_cost: u32) -> Self {
        self.other_cost = other_cost;
        self
    }

    /// With another number of tokens that a successful first attempt adds.
    #[must_use]
    pub const fn first_success(mut self, first_success: u32) -> Self {
        self.first_success = first_success;
        self
    }

    /// With another number of tokens that each second adds.
    #[must_use]
    pub const fn refill_per_second(mut self, refill_per_second: f64) -> Self {
        self.refill_per_second = refill_per_second;
        self
    }

    /// With another number of retries that are possible in each second without tokens.
    #[must_use]
    pub const fn floor_per_second(mut self, floor_per_second: f64) -> Self {
        self.floor_per_second = floor_per_second;
        self
    }

    pub(crate) fn cost(&self, class: &ErrorClass) -> u32 {
        match class {
            ErrorClass::Transient => self.transient_cost,
            ErrorClass::Throttled => self.throttled_cost,
            ErrorClass::Permanent | ErrorClass::Other(_) => self.other_cost,
        }
    }
}
