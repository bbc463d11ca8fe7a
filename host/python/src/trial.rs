//! Workers in virtual time: what is sent to them, and what has happened.

use std::sync::Arc;
use std::time::Duration;

use backstop::queue::{Attribute, Message as QueueMessage, Outgoing};
use backstop_embed::trial::{self, Ended, TriedAttempt};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::message::Message;
use crate::policy::Decision;

/// How workers are tried out, and the time in which they are.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Trial(pub(crate) trial::Trial);

/// A message to send: the queue's name, the seconds from the beginning, body, attributes, group and deduplication id.
type Sent = (
    String,
    f64,
    String,
    Vec<(String, Value)>,
    Option<String>,
    Option<String>,
);

#[derive(FromPyObject)]
enum Value {
    Text(String),
    Bytes(Py<PyBytes>),
}

#[pymethods]
impl Trial {
    #[new]
    fn new(py: Python<'_>, seed: u64, within: f64, messages: Vec<Sent>) -> Self {
        let messages = messages.into_iter().map(|it| sent(py, it));
        Self(trial::Trial {
            seed,
            longest: duration(within),
            messages: messages.collect(),
            time: trial::VirtualTime::default(),
        })
    }

    /// The virtual time that has passed, in seconds.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.0.time.elapsed().as_secs_f64()
    }

    /// Lets virtual time pass for the attempts at these messages. Whether it has come: not if the trial has ended.
    fn sleep(&self, py: Python<'_>, working: Vec<Py<Message>>, seconds: f64) -> bool {
        let receipts: Vec<_> = working
            .iter()
            .map(|it| it.get().0.receipt_handle.clone())
            .collect();
        py.detach(|| self.0.time.sleep(&receipts, duration(seconds)))
    }
}

fn sent(py: Python<'_>, sent: Sent) -> trial::TrialMessage {
    let (queue, after, body, attributes, group, deduplication_id) = sent;
    let attributes = attributes.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) => Attribute::string(text),
            Value::Bytes(bytes) => Attribute::Binary {
                data_type: "Binary".to_owned(),
                value: bytes.as_bytes(py).to_vec(),
            },
        };
        (name, value)
    });
    trial::TrialMessage {
        queue,
        after: duration(after),
        message: Outgoing {
            attributes: attributes.collect(),
            group,
            deduplication_id,
            ..Outgoing::new(body)
        },
    }
}

/// A number of seconds; none of what is no time.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// What has happened.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Tried(pub(crate) Arc<trial::Tried>);

#[pymethods]
impl Tried {
    /// In seconds.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.0.elapsed.as_secs_f64()
    }

    #[getter]
    fn left(&self) -> usize {
        self.0.left
    }

    fn attempts(&self, py: Python<'_>) -> PyResult<Vec<Attempt>> {
        let attempts = self.0.attempts.iter();
        attempts.map(|it| Attempt::of(py, it)).collect()
    }

    /// The dead letters, each with the name of its queue.
    fn letters(&self) -> Vec<(String, Message)> {
        let letter = |letter: &QueueMessage| Message(Arc::new(letter.clone()));
        let letters = self.0.letters.iter();
        letters
            .map(|(queue, it)| (queue.clone(), letter(it)))
            .collect()
    }
}

/// One attempt. Times are in seconds.
#[pyclass(frozen, get_all, module = "backstop")]
pub(crate) struct Attempt {
    queue: String,
    message_id: String,
    body: String,
    number: u32,
    at: f64,
    took: f64,
    outcome: String,
    code: Option<String>,
    error: Option<String>,
    decision: Option<Py<Decision>>,
}

impl Attempt {
    fn of(py: Python<'_>, it: &TriedAttempt) -> PyResult<Self> {
        let (outcome, error) = match &it.ended {
            Ended::Succeeded => ("succeeded".to_owned(), None),
            Ended::NotCounted(error) => ("not-counted".to_owned(), error.as_ref()),
            Ended::Failed(record) => {
                let verdict = record.decision.action.verdict();
                (verdict.to_string(), Some(&record.failure.error))
            }
        };
        let decision = match &it.ended {
            Ended::Failed(record) => Some(Py::new(py, Decision::of_record(record))?),
            Ended::Succeeded | Ended::NotCounted(_) => None,
        };
        Ok(Self {
            queue: it.queue.clone(),
            message_id: it.message_id.clone(),
            body: it.body.to_string(),
            number: it.number,
            at: it.at.as_secs_f64(),
            took: it.took.as_secs_f64(),
            code: error.map(|it| it.code.clone()),
            error: error.map(|it| it.message.clone()),
            outcome,
            decision,
        })
    }
}
