//! Errors of AWS, sorted: refused, failed, unknown, or fatal.

use backstop_aws::{FailedRequest, Meaning};
use backstop_core::failure::Error;

use crate::target::RequestError;

/// A target can't be opened: it does not exist, the permission is missing, or there was no response.
///
/// ```no_run
/// use backstop_deliver::sqs::Queue;
///
/// # async fn open(config: &aws_config::SdkConfig, url: &str) -> Option<Queue> {
/// match Queue::open(config, url).await {
///     Ok(queue) => Some(queue),
///     Err(error) if error.retryable => None,
///     Err(error) => panic!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can't open {target}: {operation} failed: {error}")]
pub struct OpenError {
    /// The queue, table or stream.
    pub target: String,
    /// The API's name of the operation.
    pub operation: &'static str,
    /// What went wrong.
    pub error: Error,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

/// What can be done about an error of a request.
pub(crate) fn request_error(failed: FailedRequest) -> RequestError {
    let sorted = match failed.meaning {
        Meaning::Refused => RequestError::Rejected,
        Meaning::Throttled | Meaning::NotSent | Meaning::Failed | Meaning::FailedForLong => {
            RequestError::Failed
        }
        Meaning::Unknown => RequestError::Unknown,
        Meaning::NotConfigured
        | Meaning::Unauthenticated
        | Meaning::Denied
        | Meaning::Missing
        | Meaning::Unusable => RequestError::Fatal,
    };
    sorted(explained(failed))
}

/// Why a target can't be opened.
pub(crate) fn open_error(
    target: &str,
    operation: &'static str,
    failed: FailedRequest,
) -> OpenError {
    OpenError {
        target: target.to_owned(),
        operation,
        retryable: failed.meaning.may_pass(),
        error: explained(failed),
    }
}

fn explained(failed: FailedRequest) -> Error {
    Error::new(failed.code, failed.text).status(failed.status)
}
