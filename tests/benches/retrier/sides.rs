//! The sides: each calls a function at most three times, with full jitter or what the library has.

use std::io;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use backstop_retry::{Budget, FullJitter, Retrier, RetrierBuilder};
use tokio::time::sleep;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::{Policy, Retry};
use tower::util::rng::HasherRng;

pub(crate) const ATTEMPTS: u32 = 3;
pub(crate) const BASE: Duration = Duration::from_millis(50);
pub(crate) const CAP: Duration = Duration::from_secs(20);

/// The loop that everybody writes.
pub(crate) async fn by_hand<T, F>(mut function: impl FnMut() -> F) -> Result<T, io::Error>
where
    F: Future<Output = Result<T, io::Error>>,
{
    let mut attempt = 1;
    loop {
        match function().await {
            Ok(value) => return Ok(value),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => {
                let longest = (BASE * 2_u32.pow(attempt - 1)).min(CAP);
                sleep(longest.mul_f64(rand::random())).await;
                attempt += 1;
            }
        }
    }
}

pub(crate) fn retrier(budget: Option<&Budget>) -> Retrier {
    let retrier = builder();
    match budget {
        Some(budget) => retrier.budget(budget),
        None => retrier,
    }
    .build()
    .unwrap()
}

pub(crate) fn builder() -> RetrierBuilder {
    let policy = FullJitter::default().base(BASE).cap(CAP);
    Retrier::builder().policy(policy.max_attempts(ATTEMPTS))
}

/// backon's exponential backoff with jitter.
pub(crate) async fn with_backon<T, F>(function: impl FnMut() -> F) -> Result<T, io::Error>
where
    F: Future<Output = Result<T, io::Error>>,
{
    let backoff = ExponentialBuilder::default()
        .with_min_delay(BASE)
        .with_max_delay(CAP)
        .with_max_times(2)
        .with_jitter();
    function.retry(backoff).await
}

/// A policy for tower's `Retry`, as its documentation shows it.
#[derive(Clone)]
pub(crate) struct TowerPolicy {
    left: u32,
    backoff: ExponentialBackoff,
}

impl TowerPolicy {
    pub(crate) fn new() -> Self {
        let backoff = ExponentialBackoffMaker::new(BASE, CAP, 1.0, HasherRng::new());
        Self {
            left: ATTEMPTS - 1,
            backoff: backoff.unwrap().make_backoff(),
        }
    }
}

impl<T> Policy<(), T, io::Error> for TowerPolicy {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut (), result: &mut Result<T, io::Error>) -> Option<Self::Future> {
        if result.is_ok() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, _: &()) -> Option<()> {
        Some(())
    }
}

pub(crate) fn with_tower<S>(service: S) -> Retry<TowerPolicy, S> {
    Retry::new(TowerPolicy::new(), service)
}
