//! Failures to test a policy with.

use crate::{Error, Failure};

/// A failure after the first attempt, with this code and defaults for the rest. Tests change the fields that matter.
///
/// ```
/// use backstop_policy::Failure;
/// let third = Failure { attempt: 3, random: 0.5, ..backstop_policy::testing::failure("HTTP 503") };
/// assert_eq!(third.error.code, "HTTP 503");
/// ```
pub fn failure(code: &str) -> Failure {
    Failure {
        message_id: "c9b7a3d0-0000-4000-8000-000000000001".to_owned(),
        source: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        attempt: 1,
        age: 0,
        failed_at: 1_767_225_600_000.0,
        previous_delay: None,
        error: Error {
            code: code.to_owned(),
            message: String::new(),
            status: None,
            retry_after: None,
            details: Vec::new(),
        },
        attributes: Vec::new(),
        random: 0.0,
    }
}
