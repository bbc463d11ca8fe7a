//! Errors that the fault proxy answers with in the name of a service: any status, code and request to wait.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::http::Response;
use backstop_core::clock;

use crate::proxy::{Fault, error};

/// An error that a service answers with: as JSON for an operation that is named in a header, else as XML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The code.
    pub code: &'static str,
    /// How long the caller is asked to wait.
    pub wait: Wait,
}

/// How long a caller is asked to wait, and in which header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// No header.
    Unsaid,
    /// `retry-after`, in seconds.
    Seconds(u32),
    /// `retry-after` as a date, this many seconds from now.
    Date(u32),
    /// `x-amz-retry-after`, in milliseconds.
    Milliseconds(u32),
}

impl Fault {
    /// An error with this status and code.
    pub const fn refused(status: u16, code: &'static str) -> Self {
        Self::Refused(Refusal {
            status,
            code,
            wait: Wait::Unsaid,
        })
    }

    /// HTTP 503, with the request to wait.
    pub const fn busy(wait: Wait) -> Self {
        Self::Refused(Refusal {
            status: 503,
            code: "ServiceUnavailable",
            wait,
        })
    }
}

impl Refusal {
    /// As JSON or as XML.
    pub(crate) fn response(self, is_json: bool) -> Response<Body> {
        let mut response = if is_json {
            error(self.status, self.code)
        } else {
            xml(self.status, self.code)
        };
        let in_seconds = |seconds: u32| clock::now().plus(Duration::from_secs(seconds.into()));
        let header = match self.wait {
            Wait::Unsaid => return response,
            Wait::Seconds(seconds) => ("retry-after", seconds.to_string()),
            Wait::Date(seconds) => {
                let date = UNIX_EPOCH + Duration::from_millis(in_seconds(seconds).0);
                ("retry-after", httpdate::fmt_http_date(date))
            }
            Wait::Milliseconds(wait) => ("x-amz-retry-after", wait.to_string()),
        };
        let value = header.1.parse().unwrap();
        response.headers_mut().insert(header.0, value);
        response
    }
}

/// As S3 answers.
fn xml(status: u16, code: &str) -> Response<Body> {
    let body = format!("<Error><Code>{code}</Code><Message>by the proxy</Message></Error>");
    Response::builder()
        .status(status)
        .header("content-type", "application/xml")
        .body(Body::from(body))
        .unwrap()
}
