//! What a policy sees of an error. JavaScript passes what it finds at the error, and the rules are here.

use backstop_backoff::classify;
use backstop_core::failure::{Error, Milliseconds, Timestamp};
use backstop_core::retry_after::retry_after_at;

use crate::wire::{Reader, saturated};

/// The kind of an error that `permanent(..)` made.
const PERMANENT: u32 = 1;

/// The code of an error of which no more is known.
const UNKNOWN: &str = "Error";

/// What JavaScript finds at an error.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// `permanent(..)` made it.
    permanent: bool,
    /// The code that the program has given it, which is its code whatever else is known.
    own_code: Option<String>,
    /// Its own code and those of its causes, such as `ECONNREFUSED`.
    codes: Vec<String>,
    /// Its name, such as `ThrottlingException`.
    name: String,
    message: String,
    status: Option<u16>,
    /// It says itself how long to wait.
    retry_after: Option<Milliseconds>,
    /// The headers of the response, with names in lower case, and other details.
    details: Vec<(String, String)>,
    /// Its SDK calls it one that may be retried.
    is_retryable: bool,
    /// Its SDK calls it throttled.
    is_throttled: bool,
}

/// The error as a policy sees it, at this time of day in milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates when it is cast"
)]
pub fn read_error(reader: &mut Reader, wall: f64) -> Error {
    let kind = reader.whole();
    let code = reader.text();
    let codes = reader.pairs().into_iter().map(|(code, _)| code).collect();
    let found = Found {
        permanent: kind == PERMANENT,
        own_code: (kind != 0).then_some(code),
        codes,
        name: reader.text(),
        message: reader.text(),
        status: reader
            .optional()
            .and_then(|it| u16::try_from(saturated(it)).ok()),
        retry_after: reader
            .optional()
            .map(|it| Milliseconds(saturated(it.ceil()))),
        is_retryable: reader.flag(),
        is_throttled: reader.flag(),
        details: reader.pairs(),
    };
    found.described(Timestamp(wall as u64))
}

impl Found {
    fn described(self, now: Timestamp) -> Error {
        let header = |name: &str| {
            let mut details = self.details.iter();
            let found = details.find(|(known, _)| known == name)?;
            Some(found.1.as_str())
        };
        let asked = self.retry_after.or_else(|| retry_after_at(header, now));
        if let Some(code) = self.own_code {
            let error = if self.permanent {
                Error::permanent(code, self.message)
            } else {
                Error::new(code, self.message).status(self.status)
            };
            return error.retry_after(asked).details(self.details);
        }
        if self.name == "SyntaxError" && self.codes.is_empty() {
            // Text that ends too early may have been cut.
            return if self.message.starts_with("Unexpected end") {
                Error::new("UnexpectedEof", self.message)
            } else {
                Error::permanent("Decode", self.message)
            };
        }
        let (code, status) = (self.code(), self.status());
        Error::new(code, self.message)
            .status(status)
            .retry_after(asked)
            .details(self.details)
    }

    /// A code that the default classification knows; else the status, if there is one; else what the error says of itself.
    fn code(&self) -> String {
        let is_named =
            !["", "Error", "TypeError", "AxiosError", "HttpError"].contains(&&*self.name);
        let name = is_named.then_some(&self.name);
        let known = self.codes.iter().chain(name).find(|code| is_known(code));
        let of_status = || self.status.map(|status| format!("HTTP {status}"));
        // A response is an answer of the service, so a name that says who threw it says less.
        known
            .cloned()
            .or_else(|| {
                name.filter(|_| self.is_retryable || self.is_of_aws())
                    .cloned()
            })
            .or_else(of_status)
            .or_else(|| self.codes.first().cloned())
            .or_else(|| name.cloned())
            .or_else(|| Some(self.name.clone()).filter(|name| !name.is_empty()))
            .unwrap_or_else(|| UNKNOWN.to_owned())
    }

    fn is_of_aws(&self) -> bool {
        self.details.iter().any(|(name, _)| name == "requestId")
    }

    /// What its SDK says of an error that nobody else knows. The statuses are what policies understand that know only statuses.
    fn status(&self) -> Option<u16> {
        let is_known = self.codes.iter().chain([&self.name]).any(|it| is_known(it));
        match self.status {
            Some(status) if is_known => Some(status),
            _ if self.is_throttled => Some(429),
            None | Some(..500) if self.is_retryable => Some(503),
            status => status,
        }
    }
}

/// Whether the default classification knows a code: then a status makes no difference.
fn is_known(code: &str) -> bool {
    classify(code, Some(400)) == classify(code, Some(503))
}
