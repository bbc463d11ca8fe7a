//! Errors of connections, whatever library reports them.

use std::error::Error as StdError;
use std::io;

use backstop_core::failure::Error;
use backstop_core::network;
use backstop_core::text::chain;

/// Describes any error by its causes: the code of Node.js if one of them is an error of a connection (`ECONNRESET`, `ENOTFOUND`), else `Error`. The message has all causes.
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
    Error::new(code(error).unwrap_or("Error"), chain(error))
}

impl super::Describe for Box<dyn StdError + Send + Sync> {
    fn describe(&self) -> Error {
        describe_by_causes(&**self)
    }
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
    match hyper.is_timeout() {
        true => Some("ETIMEDOUT"),
        false => (hyper.is_incomplete_message() || hyper.is_closed()).then_some("ECONNRESET"),
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
    struct Wrapped(&'static str, Option<io::Error>);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_ref().map(|cause| cause as _)
        }
    }

    #[test]
    fn the_first_cause_that_is_known_gives_the_code() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, code, message) in [
            (Wrapped("failed", None), "Error", "failed"),
            (
                Wrapped("failed", Some(reset())),
                "ECONNRESET",
                "failed: connection reset",
            ),
            (
                Wrapped("failed", Some(io::Error::other(reset()))),
                "ECONNRESET",
                "failed: connection reset",
            ),
            (
                Wrapped("dns error", Some(io::Error::other("no such host"))),
                "ENOTFOUND",
                "dns error: no such host",
            ),
            (
                Wrapped(
                    "failed",
                    Some(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "bad certificate",
                    )),
                ),
                "EPROTO",
                "failed: bad certificate",
            ),
        ] {
            let boxed: Box<dyn StdError + Send + Sync> = Box::new(error);
            let described = super::super::Describe::describe(&boxed);
            assert_eq!(described, Error::new(code, message));
        }
    }
}
