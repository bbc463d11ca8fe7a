//! Errors of connections, whatever library reports them.

use std::error::Error as StdError;
use std::io;

use backstop_core::failure::Error;
use backstop_core::network;
use backstop_core::text::chain;

use super::Describe;
use super::io::{describe_kind, is_permanent};

/// Describes any error by its causes. The message has all of them. The first of these gives the code:
///
/// - an [`Error`], or an error of reqwest (feature `reqwest`), which describes itself;
/// - an error of a connection, whatever library reports it: the code of Node.js (`ECONNRESET`, `ENOTFOUND`);
/// - an I/O error that is permanent (`NotFound`, `PermissionDenied`), or an error of decoding JSON or UTF-8 text (`Decode`, `InvalidData`);
/// - none: `Error`.
///
/// For the errors of libraries that this crate has no feature for:
///
/// ```
/// use std::io;
///
/// use backstop_retry::describe_by_causes;
///
/// let error = io::Error::other(io::Error::from(io::ErrorKind::ConnectionReset));
/// assert_eq!(describe_by_causes(&error).code, "ECONNRESET");
/// ```
pub fn describe_by_causes(error: &(dyn StdError + 'static)) -> Error {
    let described = causes(error)
        .find_map(describes_itself)
        .or_else(|| causes(error).find_map(decoding))
        .or_else(|| code(error).map(|code| Error::new(code, "")))
        .or_else(|| causes(error).find_map(permanent));
    let mut described = described.unwrap_or_else(|| Error::new("Error", ""));
    described.message = chain(error);
    described
}

/// A row for each type of error that is described by its causes.
macro_rules! by_causes {
    ($($(#[$about:meta])* $error:ty;)+) => {$(
        $(#[$about])*
        impl Describe for $error {
            fn describe(&self) -> Error {
                describe_by_causes(&**self)
            }

            fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&**self)
            }
        }
    )+};
}

by_causes! {
    Box<dyn StdError>;
    Box<dyn StdError + Send + Sync>;
    #[cfg(feature = "anyhow")]
    anyhow::Error;
}

/// A cause that knows its code, and what else a policy sees of it.
fn describes_itself(cause: &(dyn StdError + 'static)) -> Option<Error> {
    let error = cause.downcast_ref::<Error>().map(Describe::describe);
    #[cfg(feature = "reqwest")]
    let error = error
        .or_else(|| Some(cause.downcast_ref::<super::ReqwestError>()?.describe()))
        .or_else(|| Some(cause.downcast_ref::<::reqwest::Error>()?.describe()));
    error
}

/// What was received is not what was expected. Such an error is no error of a connection, although its I/O error has the kind of malformed TLS.
fn decoding(cause: &(dyn StdError + 'static)) -> Option<Error> {
    if let Some(json) = cause.downcast_ref::<serde_json::Error>() {
        return Some(json.describe());
    }
    let is_no_text = cause.is::<std::str::Utf8Error>() || cause.is::<std::string::FromUtf8Error>();
    // Those of the standard library wrap no error: bytes that are no UTF-8.
    let is_plain = |io: &io::Error| {
        io.kind() == io::ErrorKind::InvalidData
            && io.raw_os_error().is_none()
            && io.get_ref().is_none()
    };
    let is_no_text = is_no_text || cause.downcast_ref::<io::Error>().is_some_and(is_plain);
    is_no_text.then(|| describe_kind(io::ErrorKind::InvalidData, String::new()))
}

/// An I/O error that the next attempt would find again.
fn permanent(cause: &(dyn StdError + 'static)) -> Option<Error> {
    let io = cause.downcast_ref::<io::Error>()?;
    is_permanent(io.kind()).then(|| describe_kind(io.kind(), String::new()))
}

/// The code of the error of a connection that is, or has caused, this error.
pub(super) fn code(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let causes = || causes(error);
    if causes().any(is_malformed) {
        return Some("EPROTO");
    }
    // Resolvers have no kind of their own.
    let is_lookup = |cause: &(dyn StdError + 'static)| {
        let text = cause.to_string();
        text.contains("dns error") || text.contains("failed to lookup")
    };
    if causes().any(is_lookup) {
        return Some("ENOTFOUND");
    }
    if causes().any(<dyn StdError>::is::<tokio::time::error::Elapsed>) {
        return Some("ETIMEDOUT");
    }
    causes()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .find_map(|io| network::lack(io).or_else(|| network::code(io.kind())))
        .or_else(|| causes().find_map(of_hyper))
}

/// The code of an error of hyper itself, such as a connection that was closed before the response was complete.
#[cfg(feature = "hyper")]
fn of_hyper(cause: &(dyn StdError + 'static)) -> Option<&'static str> {
    let hyper = cause.downcast_ref::<::hyper::Error>()?;
    if hyper.is_timeout() {
        Some("ETIMEDOUT")
    } else {
        (hyper.is_incomplete_message() || hyper.is_closed()).then_some("ECONNRESET")
    }
}

#[cfg(not(feature = "hyper"))]
fn of_hyper(_: &(dyn StdError + 'static)) -> Option<&'static str> {
    None
}

/// The error and its causes. An I/O error skips the one that it wraps, so that one is added.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |cause| {
        match cause.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
            None => (*cause).source(),
        }
    })
}

/// Whether the other side does not speak the protocol: its response is no HTTP, or its TLS is not trusted.
fn is_malformed(cause: &(dyn StdError + 'static)) -> bool {
    #[cfg(feature = "hyper")]
    if let Some(hyper) = cause.downcast_ref::<::hyper::Error>() {
        return hyper.is_parse();
    }
    cause
        .downcast_ref::<io::Error>()
        .is_some_and(|io| io.kind() == io::ErrorKind::InvalidData)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, Option<Box<dyn StdError + Send + Sync>>);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_ref().map(|cause| &**cause as _)
        }
    }

    fn wrapped(cause: impl StdError + Send + Sync + 'static) -> Wrapped {
        Wrapped("failed", Some(Box::new(cause)))
    }

    #[test]
    fn the_first_cause_that_is_known_gives_the_code() {
        let io = |kind, text: &str| io::Error::new(kind, text);
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, code, message) in [
            (Wrapped("failed", None), "Error", "failed"),
            (wrapped(reset()), "ECONNRESET", "failed: connection reset"),
            (
                wrapped(io::Error::other(reset())),
                "ECONNRESET",
                "failed: connection reset",
            ),
            (
                Wrapped(
                    "dns error",
                    Some(Box::new(io::Error::other("no such host"))),
                ),
                "ENOTFOUND",
                "dns error: no such host",
            ),
            (
                wrapped(io(io::ErrorKind::InvalidData, "bad certificate")),
                "EPROTO",
                "failed: bad certificate",
            ),
        ] {
            let boxed: Box<dyn StdError + Send + Sync> = Box::new(error);
            assert_eq!(boxed.describe(), Error::new(code, message));
        }
    }

    #[test]
    fn what_every_attempt_would_repeat_is_permanent_whatever_wraps_it() {
        let no_text = String::from_utf8(vec![0xff]).unwrap_err();
        let no_json = serde_json::from_str::<String>("\"cut").unwrap_err();
        let wrong = serde_json::from_str::<u32>("[]").unwrap_err();
        for (error, code, status) in [
            (
                wrapped(io::Error::from(io::ErrorKind::NotFound)),
                "NotFound",
                Some(422),
            ),
            (
                wrapped(io::Error::from(io::ErrorKind::PermissionDenied)),
                "PermissionDenied",
                Some(422),
            ),
            (
                wrapped(io::Error::from(io::ErrorKind::InvalidData)),
                "InvalidData",
                Some(422),
            ),
            (wrapped(no_text), "InvalidData", Some(422)),
            (wrapped(no_json), "UnexpectedEof", None),
            (wrapped(wrong), "Decode", Some(422)),
            (
                wrapped(Error::permanent("CardDeclined", "no")),
                "CardDeclined",
                Some(422),
            ),
        ] {
            let boxed: Box<dyn StdError> = Box::new(error);
            let found = boxed.describe();
            assert_eq!((found.code.as_str(), found.status), (code, status));
            assert!(found.message.starts_with("failed: "), "{}", found.message);
        }
    }
}
