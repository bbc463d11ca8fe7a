//! A message of a queue, as a handler receives it.

use std::sync::Arc;

use backstop::queue::Attribute;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

/// One receive of a message. Its values are made when they are asked for.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Message(pub(crate) Arc<backstop::Message>);

#[pymethods]
impl Message {
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    #[getter]
    fn body(&self) -> &str {
        &self.0.body
    }

    /// The sender's attributes by name: text, or bytes of binary ones.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (name, attribute) in &self.0.attributes {
            match attribute {
                Attribute::Text { value, .. } => values.set_item(name, PyString::new(py, value))?,
                Attribute::Binary { value, .. } => {
                    values.set_item(name, PyBytes::new(py, value))?
                }
            }
        }
        Ok(values)
    }

    #[getter]
    fn receive_count(&self) -> u32 {
        self.0.receive_count.get()
    }

    /// Milliseconds since 1970.
    #[getter]
    fn sent_ms(&self) -> u64 {
        self.0.sent.0
    }

    #[getter]
    fn group_id(&self) -> Option<&str> {
        self.0.group.as_deref()
    }

    #[getter]
    fn deduplication_id(&self) -> Option<&str> {
        self.0.deduplication_id.as_deref()
    }

    #[getter]
    fn sender_id(&self) -> Option<&str> {
        self.0.sender.as_deref()
    }

    #[getter]
    fn trace_header(&self) -> Option<&str> {
        self.0.trace_header.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("<Message {}>", self.0.id)
    }
}
