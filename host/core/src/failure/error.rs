//! Why an attempt failed: a code, a text and details, within the limits of the contract.

use std::collections::BinaryHeap;

use backstop_backoff::{Class, classify};
use serde::{Deserialize, Serialize};

use super::boto;
use super::{DETAIL_BYTES, MESSAGE_BYTES, Milliseconds, PAIRS};
use crate::text::cut;

/// The code of an error that says that another owner does the same work now. With a `retry-after`, the end of the owner's lease, it [is no attempt](Error::is_in_progress).
pub const IN_PROGRESS: &str = "InProgress";

/// The code of an error that says that it is [permanent](Error::permanent), and nothing else. The default classification knows it, so a Lambda function can report it too.
pub const PERMANENT: &str = "Permanent";

/// The status of an error that says that it is permanent: the request cannot be processed, whoever sends it (RFC 9110).
const PERMANENT_STATUS: u16 = 422;

/// Why an attempt failed, as its source reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct Error {
    /// The type or code: `ThrottlingException`, `ECONNRESET`, `HTTP 503`, `exit 3`; at most [`MESSAGE_BYTES`].
    pub code: String,
    /// The text, at most [`MESSAGE_BYTES`].
    #[serde(default)]
    pub message: String,
    /// The HTTP status, if the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the failing service asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Milliseconds>,
    /// Further details from the source, by name; at most [`DETAIL_BYTES`] in total, and [`PAIRS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<(String, String)>,
    /// The worker cannot have seen the message: nobody listens, the program does not start, or this host lacks something. Such an error is no attempt, and no policy decides about it.
    #[serde(skip)]
    pub unavailable: bool,
}

impl Error {
    /// An error with this code and text, without a status.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same error with the HTTP status that its source has, if it has one.
    #[must_use]
    pub fn status(mut self, status: impl Into<Option<u16>>) -> Self {
        self.status = status.into();
        self
    }

    /// The same error from a service that asked to wait for so long, if it did.
    ///
    /// ```
    /// use backstop_core::failure::{Error, Milliseconds};
    ///
    /// let busy = Error::new("HTTP 429", "too many requests").status(429);
    /// let busy = busy.retry_after(Milliseconds(30_000)).details([("tenant", "t-1")]);
    /// assert_eq!(busy.details, [("tenant".to_owned(), "t-1".to_owned())]);
    /// ```
    #[must_use]
    pub fn retry_after(mut self, wait: impl Into<Option<Milliseconds>>) -> Self {
        self.retry_after = wait.into();
        self
    }

    /// The same error with these details in addition to its own.
    #[must_use]
    pub fn details<N: Into<String>, V: Into<String>>(
        mut self,
        details: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let details = details.into_iter();
        self.details
            .extend(details.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// An error that every further attempt would repeat: permanent for the default classification, and for policies that know statuses alone. Its status is 422, although no server has sent it.
    ///
    /// A code that the default classification knows as transient or throttled would contradict that. Such an error has the code [`PERMANENT`], and the given code begins its message.
    ///
    /// ```
    /// use backstop_core::failure::Error;
    /// use backstop_core::fallback::class_of;
    ///
    /// for code in ["CardDeclined", "ECONNRESET"] {
    ///     let error = Error::permanent(code, "never again");
    ///     assert_eq!(class_of(&error.code, error.status).to_string(), "permanent");
    /// }
    /// assert_eq!(Error::permanent("CardDeclined", "").code, "CardDeclined");
    /// assert_eq!(Error::permanent("ECONNRESET", "x").to_string(), "Permanent: ECONNRESET: x");
    /// ```
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, message).made_permanent(PERMANENT)
    }

    /// The same error, as one that is [permanent](Self::permanent). A code that would contradict that is replaced by `otherwise`, and begins the message.
    #[must_use]
    pub fn made_permanent(mut self, otherwise: &str) -> Self {
        self.status = Some(PERMANENT_STATUS);
        if classify(&self.code, self.status) != Class::Permanent {
            self.message = self.to_string();
            otherwise.clone_into(&mut self.code);
        }
        self
    }

    /// An error that a function or a worker reports with a type and a message. boto3's `ClientError` says nothing: the service's code is in its message.
    ///
    /// ```
    /// use backstop_core::failure::Error;
    ///
    /// let text = "An error occurred (SlowDown) when calling the PutObject operation: Reduce your rate";
    /// assert_eq!(Error::reported("ClientError", text), Error::new("SlowDown", text));
    /// assert_eq!(Error::reported("OrderFailed", text), Error::new("OrderFailed", text));
    /// ```
    pub fn reported(name: impl Into<String>, message: impl Into<String>) -> Self {
        let (name, message) = (name.into(), message.into());
        let is_of_boto = matches!(name.rsplit('.').next(), Some("ClientError"));
        let of_service = boto::code(&message).filter(|_| is_of_boto);
        match of_service.map(boto::named) {
            Some(code) => Self::new(code, message),
            None => Self::new(name, message),
        }
    }

    /// The code in the last line of a program's error output, if that is an error of boto3 or of the AWS CLI.
    ///
    /// ```
    /// use backstop_core::failure::Error;
    ///
    /// let output = "Traceback (most recent call last):\n  ...\nbotocore.exceptions.ClientError: \
    ///     An error occurred (AccessDenied) when calling the GetObject operation: Access Denied\n";
    /// assert_eq!(Error::code_of_output(output).unwrap(), "AccessDenied");
    /// ```
    pub fn code_of_output(output: &str) -> Option<String> {
        boto::code_in_line(output.trim_end().lines().next_back()?).map(boto::named)
    }

    /// An error that says that the worker is unavailable, and cannot have seen the message.
    ///
    /// ```
    /// use backstop_core::failure::Error;
    ///
    /// let error = Error::unavailable("ECONNREFUSED", "nobody listens");
    /// assert!(error.unavailable);
    /// assert!(!Error::new("ECONNRESET", "").unavailable);
    /// ```
    pub fn unavailable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            unavailable: true,
            ..Self::new(code, message)
        }
    }

    /// Whether another owner does the same work now, for as long as the `retry-after` says. Such an error is no attempt: no limit on attempts counts it.
    ///
    /// ```
    /// use backstop_core::failure::{Error, IN_PROGRESS, Milliseconds};
    ///
    /// let elsewhere = Error::new(IN_PROGRESS, "the same work is in progress elsewhere");
    /// let elsewhere = elsewhere.retry_after(Milliseconds(5_000));
    /// assert!(elsewhere.is_in_progress());
    /// // Without the end of a lease, nobody knows that it has one.
    /// assert!(!Error::new(IN_PROGRESS, "").is_in_progress());
    /// ```
    pub fn is_in_progress(&self) -> bool {
        self.code == IN_PROGRESS && self.retry_after.is_some_and(|left| left > Milliseconds(0))
    }

    /// The same error within the limits of the contract: code and text cut, the largest details left out.
    pub fn within_bounds(mut self) -> Self {
        cut(&mut self.code, MESSAGE_BYTES);
        cut(&mut self.message, MESSAGE_BYTES);
        leave_out_largest(&mut self.details, DETAIL_BYTES);
        self
    }

    pub(super) fn is_within_bounds(&self) -> bool {
        self.code.len() <= MESSAGE_BYTES
            && self.message.len() <= MESSAGE_BYTES
            && fits(&self.details, DETAIL_BYTES)
    }
}

/// Whether names and values have at most `bytes` bytes in total, in at most [`PAIRS`] pairs.
pub(super) fn fits(pairs: &[(String, String)], bytes: usize) -> bool {
    pairs.len() <= PAIRS && pairs.iter().map(size).sum::<usize>() <= bytes
}

fn size((name, value): &(String, String)) -> usize {
    name.len() + value.len()
}

/// Removes pairs until the others [fit](fits): the largest first, and among equally large ones the last by name. A long pair never displaces a short one, whatever their order.
pub(super) fn leave_out_largest(pairs: &mut Vec<(String, String)>, bytes: usize) {
    if fits(pairs, bytes) {
        return;
    }
    let mut total: usize = pairs.iter().map(size).sum();
    let with_index = pairs.iter().enumerate();
    let mut kept: BinaryHeap<_> = with_index
        .map(|(index, pair)| (size(pair), pair, index))
        .collect();
    let mut is_left_out = vec![false; pairs.len()];
    while kept.len() > PAIRS || total > bytes {
        let Some((size, _, index)) = kept.pop() else {
            break;
        };
        total -= size;
        if let Some(left_out) = is_left_out.get_mut(index) {
            *left_out = true;
        }
    }
    let mut left_out = is_left_out.into_iter();
    pairs.retain(|_| left_out.next() == Some(false));
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(&self.code),
            message => write!(f, "{}: {message}", self.code),
        }
    }
}

/// So that `?` takes it out of a function that returns any error.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_permanent_has_no_code_that_says_otherwise() {
        for (code, expected) in [
            ("CardDeclined", "CardDeclined"),
            ("HTTP 503", "HTTP 503"),
            ("ValidationException", "ValidationException"),
            ("ThrottlingException", PERMANENT),
            ("com.example.TimeoutException", PERMANENT),
            ("exit 75", PERMANENT),
            ("", ""),
        ] {
            let error = Error::permanent(code, "why");
            assert_eq!(error.code, expected);
            assert_eq!(classify(&error.code, error.status), Class::Permanent);
            if code != expected {
                assert_eq!(error.message, format!("{code}: why"));
            }
        }
        // From a Lambda function, only the code arrives.
        assert_eq!(classify(PERMANENT, None), Class::Permanent);
    }

    #[test]
    fn an_error_is_cut_to_the_limits_of_the_contract() {
        let detail = |size: usize| ("x".to_owned(), "y".repeat(size - 1));
        let error = Error {
            message: "é".repeat(MESSAGE_BYTES),
            details: vec![detail(4_000), detail(200), detail(96)],
            ..Error::new("HTTP 500", "")
        };
        let error = error.within_bounds();
        assert_eq!(error.message.len(), MESSAGE_BYTES);
        assert_eq!(error.details, [detail(200), detail(96)]);
    }
}
