//! Errors of AWS, sorted: refused, failed, unknown, or hopeless.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use backstop_aws::{Endpoint, is_configuration_error};
use backstop_core::decision::ErrorClass;
use backstop_core::failure::Error;
use backstop_core::fallback::class_of;
use backstop_core::text::chain;

use crate::target::{EntryResult, RequestError};

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

/// Codes of requests that never reached the service.
const NOT_SENT: [&str; 4] = ["ENOTFOUND", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH"];

/// Parts of the codes that concern the caller, the target or its key: no request can succeed.
const HOPELESS: [&str; 14] = [
    "AccessDenied",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidAddress",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "NonExistentQueue",
    "NotAuthorized",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
];

/// Whether no request can succeed after an error with this code.
fn is_hopeless(code: &str) -> bool {
    let is_key = code.starts_with("KMS.") || code.starts_with("Kms") || code.starts_with("KMS");
    let is_listed = HOPELESS.iter().any(|part| code.contains(part));
    let may_pass = code.contains("Throttl") || code.contains("Internal");
    is_listed || is_key && !may_pass
}

/// The error of a request without a usable response, or with an error as its response.
pub(crate) fn request_error<E>(
    endpoint: &Endpoint,
    error: &SdkError<E, HttpResponse>,
) -> RequestError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if let Some(none) = endpoint.no_response(error) {
        let error = Error::new(none.code, none.text);
        return if is_configuration_error(none.code) {
            RequestError::Fatal(error)
        } else if NOT_SENT.contains(&none.code) {
            RequestError::Failed(error)
        } else {
            RequestError::Unknown(error)
        };
    }
    let code = error.code().unwrap_or("UnknownError");
    let status = error.raw_response().map(|it| it.status().as_u16());
    let text = error.message().map_or_else(|| chain(error), str::to_owned);
    sort(Error {
        status,
        ..Error::new(code, text)
    })
}

/// What can be done about an error that the service answered.
fn sort(error: Error) -> RequestError {
    if is_hopeless(&error.code) {
        return RequestError::Fatal(error);
    }
    // The class of the code alone: a status of 400 says nothing more.
    match class_of(&error.code, None) {
        ErrorClass::Throttled => RequestError::Failed(error),
        _ if error.status.is_some_and(|status| status >= 500) => RequestError::Unknown(error),
        ErrorClass::Permanent => RequestError::Rejected(error),
        ErrorClass::Transient | ErrorClass::Other(_)
            if error.status.is_some_and(|status| status == 413) =>
        {
            RequestError::Rejected(error)
        }
        ErrorClass::Transient | ErrorClass::Other(_) => RequestError::Failed(error),
    }
}

/// What became of an entry with this error. Throttling is nobody's fault.
pub(crate) fn entry_result<R>(error: Error, sender_fault: bool) -> EntryResult<R> {
    if sender_fault && class_of(&error.code, None) != ErrorClass::Throttled {
        EntryResult::Rejected(error)
    } else {
        EntryResult::Failed(error)
    }
}

/// Why a target can't be opened.
pub(crate) fn open_error<E>(
    target: &str,
    operation: &'static str,
    endpoint: &Endpoint,
    error: &SdkError<E, HttpResponse>,
) -> OpenError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let sorted = request_error(endpoint, error);
    let retryable = matches!(sorted, RequestError::Failed(_) | RequestError::Unknown(_));
    let (RequestError::Rejected(error)
    | RequestError::Failed(error)
    | RequestError::Unknown(error)
    | RequestError::Fatal(error)) = sorted;
    OpenError {
        target: target.to_owned(),
        operation,
        error,
        retryable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_request_says_what_can_be_done() {
        for (code, status, expected) in [
            ("AWS.SimpleQueueService.BatchRequestTooLong", 400, "refused"),
            ("InvalidMessageContents", 400, "refused"),
            ("ValidationException", 400, "refused"),
            ("RequestEntityTooLarge", 413, "refused"),
            ("RequestThrottled", 400, "failed"),
            ("ProvisionedThroughputExceededException", 400, "failed"),
            ("KMS.ThrottlingException", 400, "failed"),
            ("SlowDown", 503, "failed"),
            ("InternalFailure", 500, "unknown"),
            ("InternalServerError", 500, "unknown"),
            ("AccessDeniedException", 400, "hopeless"),
            ("AWS.SimpleQueueService.NonExistentQueue", 400, "hopeless"),
            ("ResourceNotFoundException", 400, "hopeless"),
            ("KMS.DisabledException", 400, "hopeless"),
        ] {
            let error = Error {
                status: Some(status),
                ..Error::new(code, "")
            };
            let sorted = match sort(error) {
                RequestError::Rejected(_) => "refused",
                RequestError::Failed(_) => "failed",
                RequestError::Unknown(_) => "unknown",
                RequestError::Fatal(_) => "hopeless",
            };
            assert_eq!(sorted, expected, "{code}");
        }
    }

    #[test]
    fn a_senders_fault_is_final_unless_it_is_throttling() {
        let result = |code: &str, fault| entry_result::<()>(Error::new(code, ""), fault);
        let is_final = |result| matches!(result, EntryResult::Rejected(_));
        assert!(is_final(result("InvalidMessageContents", true)));
        assert!(!is_final(result("InternalError", false)));
        assert!(!is_final(result("RequestThrottled", true)));
    }
}
