//! One decision, for tests of a policy and for programs that apply decisions themselves.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::{self, Action, Bounds, LONGEST_DELAY, Reach, decide};
use backstop_core::failure::{Error, Failure, Milliseconds, random};
use backstop_core::text::chain;
use backstop_engine::{Payload, probe};
use backstop_retry::wasm::{LivePolicy, PartSpec, PolicySpec, Source, default_catalog};

/// A policy that is loaded and validated, as a host does. Each decision is made in a fresh instance.
#[derive(Debug)]
pub struct Policy(Arc<backstop_engine::Policy>);

/// What was decided about one failure.
#[derive(Debug, Clone)]
pub struct Decision {
    /// `transient`, `throttled`, `permanent`, or one of the policy.
    pub class: String,
    /// `retry`, `dead-letter` or `discard`.
    pub verdict: String,
    /// Milliseconds, of a retry.
    pub delay_ms: Option<u32>,
    /// Why there is no other attempt.
    pub reason: Option<String>,
    /// `policy`, `shortened`, `bound` or `fallback`.
    pub decided_by: String,
    /// What is wrong with the policy, if the fallback has decided.
    pub broken: Option<String>,
    /// How long what is called is down, as the policy says, in milliseconds.
    pub down_for_ms: Option<u32>,
    /// The policy's log lines, each with its level.
    pub log: Vec<(String, String)>,
    /// The fuel that the policy has used.
    pub fuel: u64,
}

/// A failure without its error, as a program gives it.
#[derive(Debug)]
pub struct Circumstances {
    /// From 1.
    pub attempt: u32,
    /// The age of the message, in milliseconds.
    pub age_ms: u64,
    /// The delay before this attempt, in milliseconds.
    pub previous_delay_ms: Option<u64>,
    /// The message's id.
    pub message_id: String,
    /// Where it comes from.
    pub source: String,
    /// From 0 to below 1. Without one, it derives from the id and the attempt.
    pub random: Option<f64>,
    /// The sender's attributes.
    pub attributes: Vec<(String, String)>,
    /// The message's body.
    pub body: Option<String>,
}

impl Policy {
    /// Loads the policy with this name, path or address, by the catalog that the retriers of a program share.
    ///
    /// # Errors
    ///
    /// It can't be loaded, or is not valid.
    pub fn load(name: &str, settings: Vec<(String, String)>) -> Result<Self, String> {
        let source = Source::parse(name, Path::new("")).map_err(|error| chain(&error))?;
        let settings = settings.into();
        let spec = PolicySpec::Single(PartSpec { source, settings });
        // A source has a runtime of its own.
        let loading = std::thread::spawn(move || {
            let catalog = default_catalog().map_err(|error| chain(&error))?;
            LivePolicy::checked(catalog, spec, None).map_err(|error| chain(&error))
        });
        let live = loading
            .join()
            .map_err(|_| "the policy can't be loaded".to_owned())??;
        let policy = live.current();
        probe::run(&policy).map_err(|error| chain(&error))?;
        Ok(Self(policy))
    }

    /// Its name and the beginning of its digest.
    pub fn title(&self) -> String {
        self.0.title()
    }

    /// Decides about a failure.
    ///
    /// # Errors
    ///
    /// A number is out of its range.
    pub fn decide(
        &self,
        error: Error,
        circumstances: Circumstances,
    ) -> Result<Decision, &'static str> {
        let Some(attempt) = NonZeroU32::new(circumstances.attempt) else {
            return Err("attempt: expected a number from 1");
        };
        let milliseconds = |ms: u64| Milliseconds::from_duration(Duration::from_millis(ms));
        let failure = Failure {
            random: circumstances
                .random
                .unwrap_or_else(|| random(&circumstances.message_id, attempt)),
            attempt,
            age: milliseconds(circumstances.age_ms),
            failed_at: clock::now(),
            previous_delay: circumstances.previous_delay_ms.map(milliseconds),
            error,
            message_id: circumstances.message_id,
            source: circumstances.source,
            attributes: circumstances.attributes,
        };
        if !(0.0..1.0).contains(&failure.random) {
            return Err("random: expected a number from 0 to below 1");
        }
        let body = circumstances.body;
        let payload = Arc::new(body.map(Payload::new).unwrap_or_default());
        let failure = failure.within_bounds();
        let evaluation = self.0.evaluate(&failure, &payload);
        let broken = evaluation.answer.as_ref().err().map(ToString::to_string);
        let answer = evaluation.answer.map_err(|error| error.cause());
        let reach = Reach::visibility(LONGEST_DELAY, failure.age);
        let decided = decide(&failure, answer, &Bounds::default(), reach);
        let log = evaluation.log.into_iter();
        Ok(Decision {
            log: log
                .map(|line| (line.level.to_string(), line.message))
                .collect(),
            broken,
            fuel: evaluation.fuel,
            ..Decision::from(&decided)
        })
    }
}

impl From<&decision::Decision> for Decision {
    fn from(decision: &decision::Decision) -> Self {
        let (delay_ms, reason) = match &decision.action {
            Action::Retry { delay } => (Some(delay.0), None),
            Action::DeadLetter { reason } | Action::Discard { reason } => {
                (None, Some(reason.clone()))
            }
        };
        Self {
            class: decision.class.to_string(),
            verdict: decision.action.verdict().to_string(),
            delay_ms,
            reason,
            decided_by: decision.decided_by.to_string(),
            broken: None,
            down_for_ms: decision.down_for.map(|it| it.0),
            log: Vec::new(),
            fuel: 0,
        }
    }
}
