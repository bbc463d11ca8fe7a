//! One decision, for tests of a policy and for programs that apply decisions themselves.

use backstop::record::DecisionRecord;
use backstop_core::decision::{self, DecidedBy};
use backstop_embed::policy;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::Described;

/// A policy that is loaded and validated, as a host does. Each decision is made in a fresh instance.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Policy(policy::Policy);

/// What was decided about one failure.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Decision(policy::Decision);

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
        py.detach(|| policy::Policy::load(&name, settings))
            .map(Self)
            .map_err(PyValueError::new_err)
    }

    #[getter]
    fn title(&self) -> String {
        self.0.title()
    }

    /// Decides about a failure.
    fn decide(
        &self,
        py: Python<'_>,
        error: Described,
        circumstances: Circumstances,
    ) -> PyResult<Decision> {
        py.detach(|| self.0.decide(error.into_error(), circumstances.into()))
            .map(Decision)
            .map_err(PyValueError::new_err)
    }
}

#[pymethods]
impl Decision {
    #[getter]
    fn class_(&self) -> &str {
        &self.0.class
    }

    #[getter]
    fn verdict(&self) -> &str {
        &self.0.verdict
    }

    #[getter]
    fn delay_ms(&self) -> Option<u32> {
        self.0.delay_ms
    }

    #[getter]
    fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    #[getter]
    fn decided_by(&self) -> &str {
        &self.0.decided_by
    }

    #[getter]
    fn broken(&self) -> Option<&str> {
        self.0.broken.as_deref()
    }

    #[getter]
    fn down_for_ms(&self) -> Option<u32> {
        self.0.down_for_ms
    }

    #[getter]
    fn log(&self) -> Vec<(String, String)> {
        self.0.log.clone()
    }

    #[getter]
    fn fuel(&self) -> u64 {
        self.0.fuel
    }
}

impl From<&decision::Decision> for Decision {
    fn from(decision: &decision::Decision) -> Self {
        Self(decision.into())
    }
}

impl Decision {
    /// A decision that a host has recorded.
    pub(crate) fn of_record(record: &DecisionRecord) -> Self {
        let broken = match &record.decision.decided_by {
            DecidedBy::Fallback(cause) => Some(cause.text.clone()),
            DecidedBy::Policy | DecidedBy::Shortened(_) | DecidedBy::Bound(_) => None,
        };
        let log = record.log.iter();
        Self(policy::Decision {
            log: log
                .map(|line| (line.level.to_string(), line.message.clone()))
                .collect(),
            broken,
            fuel: record.fuel,
            ..(&record.decision).into()
        })
    }
}

impl From<Circumstances> for policy::Circumstances {
    fn from(from: Circumstances) -> Self {
        Self {
            attempt: from.attempt,
            age_ms: from.age_ms,
            previous_delay_ms: from.previous_delay_ms,
            message_id: from.message_id,
            source: from.source,
            random: from.random,
            attributes: from.attributes,
            body: from.body,
        }
    }
}
