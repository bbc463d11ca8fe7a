//! Errors of requests to a queue, and whether they can be retried.

use backstop_backoff::{Class, classify};

use backstop_aws::is_configuration_error;

use backstop_core::text::one_line;

/// What to do about a queue that does not exist.
pub const CREATE_IT: &str =
    "create it or correct its URL; the account and region must be those of the credentials";

/// The codes of requests that did not reach their service.
const NOT_SENT: [&str; 4] = ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND"];

/// The code of an entry that the response does not mention.
const UNANSWERED: &str = "Unanswered";

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
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl QueueError {
    /// An error with this code, each on one line. It is retryable unless the default classification says permanent.
    pub fn new(operation: &'static str, code: &str, message: impl Into<String>) -> Self {
        let retryable = classify(code, None) != Class::Permanent;
        Self {
            operation,
            code: one_line(code),
            message: one_line(&message.into()),
            retryable,
        }
    }

    /// The error of a request without a response. `text` says why and what to do. The same request may succeed later, when the network or the credentials work again.
    pub fn no_response(operation: &'static str, code: &str, text: String) -> Self {
        Self {
            operation,
            code: code.to_owned(),
            message: one_line(&text),
            retryable: true,
        }
    }

    /// Whether the caller lacks a permission.
    pub fn is_access_denied(&self) -> bool {
        self.code.contains("AccessDenied")
            || self.code == "InvalidSecurity"
            || self.code == "SignatureDoesNotMatch"
    }

    /// Whether there was no response. The text then says what to do.
    pub fn is_no_response(&self) -> bool {
        let is_errno = |code: &str| code.starts_with('E') && !code.contains(char::is_lowercase);
        is_configuration_error(&self.code) || is_errno(&self.code)
    }

    /// Whether nobody knows if the request was carried out: there was no response to it, or a service failed while it answered.
    pub fn is_unknown(&self) -> bool {
        let was_not_sent =
            is_configuration_error(&self.code) || NOT_SENT.contains(&self.code.as_str());
        self.retryable && !was_not_sent && classify(&self.code, None) != Class::Throttled
    }

    /// Whether a batch may have been rejected because of one of its entries, and not because of the queue or the caller.
    pub fn may_concern_one_entry(&self) -> bool {
        let concerns_queue =
            self.is_access_denied() || self.is_missing_queue() || self.code.starts_with("KMS.");
        !self.retryable && !concerns_queue
    }

    /// Whether the queue does not exist.
    pub fn is_missing_queue(&self) -> bool {
        self.code.ends_with("NonExistentQueue") || self.code.ends_with("QueueDoesNotExist")
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
        let retryable = !sender_fault || classify(&code, None) == Class::Throttled;
        Self {
            code: one_line(&code),
            message: one_line(&message.into()),
            retryable,
        }
    }

    /// Whether nobody knows if the entry was carried out.
    pub fn is_unknown(&self) -> bool {
        self.code == UNANSWERED
    }

    /// The error of an entry that the response lists neither as successful nor as failed.
    pub fn missing() -> Self {
        Self::new(UNANSWERED, "the response does not mention the entry", false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_retryable_unless_it_is_the_senders_fault_and_not_throttling() {
        for (code, sender_fault, retryable) in [
            ("InternalError", false, true),
            ("ReceiptHandleIsInvalid", true, false),
            ("InvalidParameterValue", true, false),
            ("RequestThrottled", true, true),
            ("KMS.ThrottlingException", true, true),
        ] {
            assert_eq!(
                EntryError::new(code, "", sender_fault).retryable,
                retryable,
                "{code}"
            );
        }
        assert!(EntryError::missing().retryable);
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
            let error = QueueError::no_response("SendMessageBatch", code, String::new());
            assert_eq!(error.is_unknown(), expected, "{code}");
        }
        for (code, expected) in [
            ("InternalFailure", true),
            ("RequestThrottled", false),
            ("AccessDeniedException", false),
        ] {
            let error = QueueError::new("SendMessageBatch", code, "");
            assert_eq!(error.is_unknown(), expected, "{code}");
        }
        assert!(EntryError::missing().is_unknown());
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
    fn a_request_is_retryable_unless_its_error_is_permanent() {
        for (code, retryable) in [
            ("RequestThrottled", true),
            ("OverLimit", true),
            ("KMS.ThrottlingException", true),
            ("ENOTFOUND", true),
            ("InternalFailure", true),
            ("AWS.SimpleQueueService.NonExistentQueue", false),
            ("AccessDeniedException", false),
        ] {
            assert_eq!(
                QueueError::new("ReceiveMessage", code, "").retryable,
                retryable,
                "{code}"
            );
        }
    }
}
