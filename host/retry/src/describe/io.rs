//! I/O errors and tokio's timeouts.

use std::io::{self, ErrorKind};
use std::str::Utf8Error;
use std::string::FromUtf8Error;

use backstop_core::failure::Error;
use backstop_core::network;
use backstop_core::text::chain;

use super::Describe;

described! {
    /// Errors of connections have the codes of Node.js (`ECONNRESET`), as in the host; others the name of their kind. What the next attempt would find again is permanent: `NotFound`, `PermissionDenied`, `InvalidData` and others.
    io::Error => |error| match network::lack(error) {
        Some(code) => Error::new(code, chain(error)),
        None => describe_kind(error.kind(), chain(error)),
    };
    /// Bytes that are no text: `InvalidData`, which is permanent.
    FromUtf8Error => |error| describe_kind(ErrorKind::InvalidData, error.to_string());
    /// Bytes that are no text: `InvalidData`, which is permanent.
    Utf8Error => |error| describe_kind(ErrorKind::InvalidData, error.to_string());
    /// The code is `Timeout`.
    tokio::time::error::Elapsed => |error| Error::new("Timeout", error.to_string());
}

/// An I/O error of this kind, with this text.
pub(super) fn describe_kind(kind: ErrorKind, text: String) -> Error {
    match (network::code(kind), is_permanent(kind)) {
        (Some(code), _) => Error::new(code, text),
        (None, true) => Error::permanent(format!("{kind:?}"), text),
        (None, false) => Error::new(format!("{kind:?}"), text),
    }
}

/// Whether the next attempt would find the same.
pub(super) fn is_permanent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::InvalidFilename
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::DirectoryNotEmpty
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::FileTooLarge
            | ErrorKind::ArgumentListTooLong
            | ErrorKind::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_connections_have_the_codes_of_the_host() {
        for (kind, code) in [
            (ErrorKind::ConnectionReset, "ECONNRESET"),
            (ErrorKind::UnexpectedEof, "ECONNRESET"),
            (ErrorKind::TimedOut, "ETIMEDOUT"),
            (ErrorKind::WouldBlock, "WouldBlock"),
            (ErrorKind::StorageFull, "StorageFull"),
        ] {
            let error = io::Error::new(kind, "the reason").describe();
            assert_eq!(error, Error::new(code, "the reason"));
        }
        // This machine is short of file descriptors for now.
        let lack = io::Error::from_raw_os_error(24).describe();
        assert_eq!((lack.code.as_str(), lack.status), ("EMFILE", None));
    }

    #[test]
    fn what_the_next_attempt_would_find_again_is_permanent() {
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::PermissionDenied,
            ErrorKind::InvalidData,
            ErrorKind::InvalidInput,
        ] {
            let error = io::Error::new(kind, "the reason").describe();
            assert_eq!(error, Error::permanent(format!("{kind:?}"), "the reason"));
            assert_eq!(error.code, format!("{kind:?}"));
        }
        let text = String::from_utf8(vec![0xff]).unwrap_err().describe();
        assert_eq!(
            (text.code.as_str(), text.status),
            ("InvalidData", Some(422))
        );
    }
}
