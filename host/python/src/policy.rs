//! One decision, for tests of a policy and for programs that apply decisions themselves.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::{self, Action, Bounds, LONGEST_DELAY, Reach, decide};
use backstop_core::failure::{Failure, Milliseconds, random};
use backstop_engine::{Payload, probe};
use backstop_retry::wasm::{LivePolicy, PartSpec, PolicySpec, Source, default_catalog};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::Described;
use crate::text;

/// A policy that is loaded and validated, as a host does. Each decision is made in a fresh instance.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Policy {
    policy: Arc<backstop_engine::Policy>,
}

/// What was decided about one failure.
#[pyclass(frozen, get_all, module = "backstop")]
pub(crate) struct Decision {
    /// `transient`, `throttled`, `permanent`, or one of the policy.
    class_: String,
    /// `retry`, `dead-letter` or `discard`.
    verdict: String,
    /// Milliseconds, of a retry.
    delay_ms: Option<u32>,
    /// Why there is no other attempt.
    reason: Option<String>,
    /// `policy`, `shortened`, `bound` or `fallback`.
    decided_by: String,
    /// What is wrong with the policy, if the fallback has decided.
    broken: Option<String>,
    /// How long what is called is down, as the policy says.
    down_for_ms: Option<u32>,
    /// The policy's log lines.
    log: Vec<(String, String)>,
    /// The fuel that the policy has used.
    fuel: u64,
}

/// A failure without its error, as Python gives it.
#[derive(FromPyObject)]
struct Circumstances {
    attempt: u32,
    age_ms: u64,
    previous_delay_ms: Option<u64>,
    message_id: String,
    source: String,
    random: Option<f64>,
    attributes: Vec<(String, String)>,
    body: Option<String>,
}

#[pymethods]
impl Policy {
    /// Loads the policy with this name, path or address.
    #[new]
    fn new(py: Python<'_>, name: String, settings: Vec<(String, String)>) -> PyResult<Self> {
        py.detach(|| load(&name, settings))
            .map_err(PyValueError::new_err)
    }

    #[getter]
    fn title(&self) -> String {
        self.policy.title()
    }

    /// Decides about a failure.
    fn decide(
        &self,
        py: Python<'_>,
        error: Described,
        circumstances: Circumstances,
    ) -> PyResult<Decision> {
        let Some(attempt) = NonZeroU32::new(circumstances.attempt) else {
            return Err(PyValueError::new_err("attempt: expected a number from 1"));
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
            error: error.into_error(),
            message_id: circumstances.message_id,
            source: circumstances.source,
            attributes: circumstances.attributes,
        };
        if !(0.0..1.0).contains(&failure.random) {
            return Err(PyValueError::new_err(
                "random: expected a number from 0 to below 1",
            ));
        }
        let body = circumstances.body;
        Ok(py.detach(|| {
            let payload = Arc::new(body.map(Payload::new).unwrap_or_default());
            let failure = failure.within_bounds();
            let evaluation = self.policy.evaluate(&failure, &payload);
            let broken = evaluation.answer.as_ref().err().map(ToString::to_string);
            let answer = evaluation.answer.map_err(|error| error.cause());
            let reach = Reach::visibility(LONGEST_DELAY, failure.age);
            let decided = decide(&failure, answer, &Bounds::default(), reach);
            let log = evaluation.log.into_iter();
            Decision {
                log: log
                    .map(|line| (line.level.to_string(), line.message))
                    .collect(),
                broken,
                fuel: evaluation.fuel,
                ..Decision::from(&decided)
            }
        }))
    }
}

/// Loads a policy by the catalog that the retriers of a program share.
fn load(name: &str, settings: Vec<(String, String)>) -> Result<Policy, String> {
    let source = Source::parse(name, Path::new("")).map_err(|error| text(&error))?;
    let settings = settings.into();
    let spec = PolicySpec::Single(PartSpec { source, settings });
    // A source has a runtime of its own.
    let loading = std::thread::spawn(move || {
        let catalog = default_catalog().map_err(|error| text(&error))?;
        LivePolicy::checked(catalog, spec, None).map_err(|error| text(&error))
    });
    let live = loading
        .join()
        .map_err(|_| "the policy can't be loaded".to_owned())??;
    let policy = live.current();
    probe::run(&policy).map_err(|error| text(&error))?;
    Ok(Policy { policy })
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
            class_: decision.class.to_string(),
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
