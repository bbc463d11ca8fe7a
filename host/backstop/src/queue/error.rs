//! What goes wrong with a request to a queue, and whether to try it again.

use backstop_backoff::{Class, classify};

use backstop_aws::is_of_host;

/// A whole request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} failed: {code}{}{message}", if message.is_empty() { "" } else { ": " })]
pub struct QueueError {
    /// The API's name of the operation.
    pub operation: &'static str,
    /// The error code of SQS, or what happened on the way to it (`ENOTFOUND`, `ETIMEDOUT`, `MissingCredentials`).
    pub code: String,
    /// The text.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl QueueError {
    /// An error by its code: retryable unless the default classification calls it permanent.
    pub fn new(operation: &'static str, code: &str, message: impl Into<String>) -> Self {
        let retryable = classify(code, None) != Class::Permanent;
        Self {
            operation,
            code: code.to_owned(),
            message: message.into(),
            retryable,
        }
    }

    /// A request that no service answered, `text` says why and what to do about it. The same one may succeed later: a name is found again, and so are credentials.
    pub(crate) fn unanswered(operation: &'static str, code: &str, text: String) -> Self {
        Self {
            operation,
            code: code.to_owned(),
            message: text,
            retryable: true,
        }
    }

    /// Whether the caller lacks a permission.
    pub fn is_access_denied(&self) -> bool {
        self.code.contains("AccessDenied")
            || self.code == "InvalidSecurity"
            || self.code == "SignatureDoesNotMatch"
    }

    /// Whether nobody answered, and the text says what to do about it.
    pub(crate) fn is_unanswered(&self) -> bool {
        let is_errno = |code: &str| code.starts_with('E') && !code.contains(char::is_lowercase);
        is_of_host(&self.code) || is_errno(&self.code)
    }

    /// Whether one entry of a batch may be the reason for which the whole is refused, and not the queue or the caller.
    pub(crate) fn may_be_of_an_entry(&self) -> bool {
        let is_of_queue =
            self.is_access_denied() || self.is_missing_queue() || self.code.starts_with("KMS.");
        !self.retryable && !is_of_queue
    }

    /// Whether the queue is not there.
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
    /// The text.
    pub message: String,
    /// Whether the same entry may succeed later.
    pub retryable: bool,
}

impl EntryError {
    /// An entry is worth another try when it was not the sender's fault, or when the fault was to ask too often.
    pub fn new(code: impl Into<String>, message: impl Into<String>, sender_fault: bool) -> Self {
        let code = code.into();
        let retryable = !sender_fault || classify(&code, None) == Class::Throttled;
        Self {
            code,
            message: message.into(),
            retryable,
        }
    }

    /// An entry that stands neither among the successful nor among the failed.
    pub fn unanswered() -> Self {
        Self::new(
            "Unanswered",
            "the entry is in neither list of the answer",
            false,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_tried_again_unless_the_sender_is_at_fault_for_more_than_haste() {
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
        assert!(EntryError::unanswered().retryable);
    }

    #[test]
    fn a_request_is_tried_again_unless_it_is_wrong() {
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
