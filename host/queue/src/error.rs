//! Errors of requests to a queue, and whether they can be retried.

use backstop_aws::{FailedRequest, Meaning};
use backstop_core::text::one_line;

/// What to do about a queue that does not exist.
pub const CREATE_IT: &str =
    "create it or correct its URL; the account and region must be those of the credentials";

/// The code of an entry that the response does not mention.
const UNANSWERED: &str = "Unanswered";

/// The label of every other code.
pub(super) const OTHER_CODE: &str = "other";

/// The codes that metrics name, with their ends without `Exception`: those of SQS and its keys, and of requests that did not reach it. A service may answer with any text, and a label must not have any number of values.
pub const ERROR_CODES: &[&str] = &[
    "AccessDenied",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "EPIPE",
    "EPROTO",
    "ETIMEDOUT",
    "ExpiredToken",
    "InternalError",
    "InternalFailure",
    "InvalidAddress",
    "InvalidClientTokenId",
    "InvalidParameterValue",
    "InvalidSecurity",
    "KmsAccessDenied",
    "KmsDisabled",
    "KmsThrottled",
    "MessageNotInflight",
    "MissingCredentials",
    "MissingRegion",
    "NonExistentQueue",
    "OverLimit",
    "QueueDoesNotExist",
    "ReceiptHandleIsInvalid",
    "RequestThrottled",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "Throttling",
    "UnknownError",
    "UnrecognizedClient",
    UNANSWERED,
];

/// The code of [`ERROR_CODES`] that this one is, with whatever prefix, or `other`.
pub(super) fn listed_code(code: &str) -> &'static str {
    let name = code.strip_suffix("Exception").unwrap_or(code);
    let name = name.rsplit(['.', '#']).next().unwrap_or(name);
    let found = ERROR_CODES.iter().find(|listed| **listed == name);
    found.copied().unwrap_or(OTHER_CODE)
}

/// A request failed as a whole. A queue that does not exist is followed by what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{operation} failed: {code}{}{message}{}",
    if message.is_empty() { "" } else { ": " },
    if self.is_missing_queue() { format!(" ({CREATE_IT})") } else { String::new() }
)]
pub struct QueueError {
    /// The API's name of the operation.
    pub operation: &'static str,
    /// The error code of SQS, or of a request that did not reach it (`ENOTFOUND`, `ETIMEDOUT`, `MissingCredentials`).
    pub code: String,
    /// The error text.
    pub message: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// What the code and the status mean.
    pub meaning: Meaning,
}

impl QueueError {
    /// An error with this code, each on one line, without a status.
    pub fn new(operation: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self {
            operation,
            code: one_line(code),
            message: one_line(&message.into()),
            status: None,
            meaning: Meaning::of(code, None),
        }
    }

    /// The error of a request to AWS.
    pub(super) fn of(operation: &'static str, failed: FailedRequest) -> Self {
        Self {
            status: failed.status,
            meaning: failed.meaning,
            ..Self::new(operation, &failed.code, failed.text)
        }
    }

    /// Whether the same request may succeed later, also when the credentials work again.
    pub fn is_retryable(&self) -> bool {
        let is_own = [Meaning::NotConfigured, Meaning::Unauthenticated].contains(&self.meaning);
        self.meaning.may_pass() || is_own
    }

    /// Whether the caller lacks a permission.
    pub fn is_access_denied(&self) -> bool {
        self.meaning == Meaning::Denied
    }

    /// Whether there was no response. The text then says what to do.
    pub fn is_no_response(&self) -> bool {
        let is_errno = self.code.starts_with('E') && !self.code.contains(char::is_lowercase);
        is_errno || self.meaning == Meaning::NotConfigured
    }

    /// Whether nobody knows if the request was carried out: there was no response to it, or a service failed while it answered.
    pub fn is_unknown(&self) -> bool {
        self.meaning == Meaning::Unknown
    }

    /// Whether a batch may have been rejected because of one of its entries, and not because of the queue or the caller.
    pub fn may_concern_one_entry(&self) -> bool {
        self.meaning == Meaning::Refused
    }

    /// Whether the queue does not exist.
    pub fn is_missing_queue(&self) -> bool {
        self.meaning == Meaning::Missing
    }
}

/// One entry of a batch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}{message}", if message.is_empty() { "" } else { ": " })]
pub struct EntryError {
    /// The error code of SQS.
    pub code: String,
    /// The error text.
    pub message: String,
    /// Whether the same entry may succeed later.
    pub retryable: bool,
}

impl EntryError {
    /// An error with this code. It is retryable if it was not the sender's fault or if it was throttling.
    pub fn new(code: impl Into<String>, message: impl Into<String>, sender_fault: bool) -> Self {
        let code = code.into();
        Self {
            code: one_line(&code),
            message: one_line(&message.into()),
            retryable: Meaning::of_entry(&code, sender_fault).may_pass(),
        }
    }

    /// Whether nobody knows if the entry was carried out.
    pub fn is_unknown(&self) -> bool {
        self.code == UNANSWERED
    }

    /// The error of an entry that the response lists neither as successful nor as failed.
    pub fn missing() -> Self {
        Self {
            code: UNANSWERED.to_owned(),
            message: "the response does not mention the entry".to_owned(),
            retryable: true,
        }
    }
}

/// Why an entry failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue rejected the entry, or its deadline passed.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The request failed, or its deadline passed.
    #[error(transparent)]
    Request(#[from] QueueError),
    /// The task that sends the batches has ended.
    #[error("the program is shutting down")]
    Ended,
}

impl SubmitError {
    /// The code of SQS, or that the program is ending.
    pub fn code(&self) -> &str {
        match self {
            Self::Entry(error) => &error.code,
            Self::Request(error) => &error.code,
            Self::Ended => "ended",
        }
    }

    /// Whether the same entry may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Entry(error) => error.retryable,
            Self::Request(error) => error.is_retryable(),
            Self::Ended => false,
        }
    }

    /// Whether nobody knows if the entry was carried out.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Entry(error) => error.is_unknown(),
            Self::Request(error) => error.is_unknown(),
            Self::Ended => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_name_the_codes_of_sqs_and_no_others() {
        for (code, expected) in [
            (
                "AWS.SimpleQueueService.NonExistentQueue",
                "NonExistentQueue",
            ),
            ("AccessDeniedException", "AccessDenied"),
            ("com.amazonaws.sqs#RequestThrottled", "RequestThrottled"),
            ("ETIMEDOUT", "ETIMEDOUT"),
            ("", OTHER_CODE),
        ] {
            assert_eq!(listed_code(code), expected);
        }
        let made_up = |number| listed_code(&format!("MadeUp{number}"));
        assert!((0..1_000).all(|number| made_up(number) == OTHER_CODE));
    }

    #[test]
    fn a_request_without_a_response_may_have_been_carried_out_unless_it_was_not_sent() {
        for (code, expected) in [
            ("ETIMEDOUT", true),
            ("ECONNRESET", true),
            ("EPROTO", true),
            ("ECONNREFUSED", false),
            ("ENOTFOUND", false),
            ("MissingCredentials", false),
        ] {
            let error = QueueError::new("SendMessageBatch", code, "");
            assert_eq!(error.is_unknown(), expected, "{code}");
            assert!(error.is_no_response() && error.is_retryable(), "{code}");
        }
        assert!(EntryError::missing().is_unknown() && EntryError::missing().retryable);
        assert!(!EntryError::new("InternalError", "", false).is_unknown());
    }

    #[test]
    fn what_a_service_answers_is_one_line() {
        let hostile = "odd\nerror: forged\u{1b}[2J";
        let shown = "odd\\nerror: forged\\u{1b}[2J";
        let error = QueueError::new("ReceiveMessage", hostile, hostile).to_string();
        assert_eq!(error, format!("ReceiveMessage failed: {shown}: {shown}"));
        let error = EntryError::new(hostile, hostile, true).to_string();
        assert_eq!(error, format!("{shown}: {shown}"));
    }

    #[test]
    fn a_request_is_retryable_unless_its_error_lasts_until_somebody_changes_something() {
        for (code, retryable) in [
            ("RequestThrottled", true),
            ("OverLimit", true),
            ("KMS.ThrottlingException", true),
            ("ENOTFOUND", true),
            ("InternalFailure", true),
            ("ExpiredToken", true),
            ("AWS.SimpleQueueService.NonExistentQueue", false),
            ("AccessDeniedException", false),
            ("KMS.DisabledException", false),
        ] {
            let error = QueueError::new("ReceiveMessage", code, "");
            assert_eq!(error.is_retryable(), retryable, "{code}");
        }
    }
}
