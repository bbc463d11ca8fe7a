//! An exception, as its package describes it, as an error that a policy classifies.

use backstop::Error;
use backstop::failure::Milliseconds;
use backstop_core::clock;
use backstop_core::retry_after::parse_retry_after;
use pyo3::prelude::*;

/// What Python says of an exception. The fields are those of `backstop.Failure`.
#[derive(Debug, FromPyObject)]
pub(crate) struct Described {
    code: String,
    message: String,
    status: Option<u16>,
    /// What a header `Retry-After` says.
    retry_after: Option<String>,
    /// Seconds, if the exception has a number.
    wait: Option<f64>,
    details: Vec<(String, String)>,
    /// `permanent` or `unavailable`, if the program says so, whatever the code.
    kind: Option<String>,
}

impl Described {
    pub(crate) fn into_error(self) -> Error {
        let error = match self.kind.as_deref() {
            Some("permanent") => Error::permanent(self.code, self.message),
            Some("unavailable") => Error::unavailable(self.code, self.message),
            _ => Error::reported(self.code, self.message).status(self.status),
        };
        let seconds = self
            .wait
            .and_then(|it| std::time::Duration::try_from_secs_f64(it).ok());
        let asked = seconds.map(Milliseconds::from_duration);
        let asked = asked.or_else(|| parse_retry_after(self.retry_after.as_deref()?, clock::now()));
        error.retry_after(asked).details(self.details)
    }
}
