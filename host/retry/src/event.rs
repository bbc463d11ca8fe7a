//! What happens to the calls of a retrier: [`Event`]s, and who observes them.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::Decision;
use backstop_core::failure::Failure;
use backstop_core::policy::{LogLine, PartName};

use crate::error::End;

/// Receives every event of a retrier. Runs inside the call, so it must not block. A closure is an observer:
///
/// ```
/// use backstop_retry::{Event, Retrier};
///
/// let retrier = Retrier::builder()
///     .observe(|event: &Event<'_>| match event {
///         Event::Retrying { failure, delay, .. } => {
///             println!("attempt {}: {}; again in {delay:?}", failure.attempt, failure.error);
///         }
///         Event::Ended { end, attempts, .. } => println!("{end} after {attempts} attempts"),
///         _ => {}
///     })
///     .build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
pub trait Observer: Send + Sync {
    /// Called for every event, in the order in which they happen to a call.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// What happened to a call. Each failed attempt is one [`Retrying`](Self::Retrying) or [`Ended`](Self::Ended). A call that the program drops has no further event.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt succeeded.
    #[non_exhaustive]
    Succeeded {
        /// The retrier's name.
        retrier: &'a str,
        /// The attempts that were made.
        attempts: u32,
    },
    /// An attempt failed, and there will be another.
    #[non_exhaustive]
    Retrying {
        /// The retrier's name.
        retrier: &'a str,
        /// The failed attempt, as the policy received it.
        failure: &'a Failure,
        /// What was decided.
        evaluated: &'a Evaluated,
        /// From the failure to the next attempt.
        delay: Duration,
        /// The tokens that are left in the retry budget, if there is one.
        budget_left: Option<f64>,
    },
    /// The call ended without success.
    #[non_exhaustive]
    Ended {
        /// The retrier's name.
        retrier: &'a str,
        /// How.
        end: End,
        /// The attempts that were made.
        attempts: u32,
        /// The failed attempt and the decision on it. `None` if the deadline came before or during the attempt, or the attempt was refused, so that there was nothing to decide.
        failed: Option<(&'a Failure, &'a Evaluated)>,
        /// The tokens that are left in the retry budget, if there is one.
        budget_left: Option<f64>,
        /// The time until the deadline, if there is one.
        time_left: Option<Duration>,
    },
}

/// A decision, and where it comes from.
///
/// ```
/// use backstop_retry::{Error, Event, Retrier, TestClock};
///
/// let clock = TestClock::new();
/// let retrier = Retrier::builder()
///     .clock(clock.clone())
///     .observe(|event: &Event<'_>| {
///         if let Event::Retrying { evaluated, .. } = event {
///             assert_eq!(evaluated.decision.class.to_string(), "transient");
///             assert_eq!(evaluated.fuel, 0, "a policy in Rust");
///         }
///     })
///     .build()?;
/// clock.block_on(retrier.run(|_| async { Err::<(), _>(Error::new("HTTP 503", "")) })).unwrap_err();
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evaluated {
    /// The decision: the policy's, or the fallback's for a broken policy.
    pub decision: Decision,
    /// The parts of the evaluated policy, with their settings.
    pub policy: Arc<[PartName]>,
    /// The policy's log lines.
    pub log: Vec<LogLine>,
    /// The fuel that it consumed; 0 for a policy in Rust.
    pub fuel: u64,
    /// How long the evaluation took.
    pub took: Duration,
}
