//! I/O errors and tokio's timeouts.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::string::FromUtf8Error;

use backstop_core::failure::Error;
use backstop_core::network;
use backstop_core::text::chain;

use super::Describe;

/// Errors of connections have the codes of Node.js (`ECONNRESET`), as in the host; others the name of their kind. What the next attempt would find again is permanent: `NotFound`, `PermissionDenied`, `InvalidData` and others.
impl Describe for io::Error {
    fn describe(&self) -> Error {
        match network::lack(self) {
            Some(code) => Error::new(code, chain(self)),
            None => describe_kind(self.kind(), chain(self)),
        }
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
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

/// Bytes that are no text: `InvalidData`, which is permanent.
impl Describe for FromUtf8Error {
    fn describe(&self) -> Error {
        describe_kind(ErrorKind::InvalidData, self.to_string())
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

/// Bytes that are no text: `InvalidData`, which is permanent.
impl Describe for std::str::Utf8Error {
    fn describe(&self) -> Error {
        describe_kind(ErrorKind::InvalidData, self.to_string())
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

/// The code is `Timeout`.
impl Describe for tokio::time::error::Elapsed {
    fn describe(&self) -> Error {
        Error::new("Timeout", self.to_string())
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
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
