//! I/O errors and tokio's timeouts.

use std::io;

use backstop_core::failure::Error;
use backstop_core::network;
use backstop_core::text::chain;

use super::Describe;

/// Errors of connections have the codes of Node.js (`ECONNRESET`), as in the host; others the name of their kind (`PermissionDenied`).
impl Describe for io::Error {
    fn describe(&self) -> Error {
        let kind = self.kind();
        let text = chain(self);
        match network::code(kind) {
            Some(code) => Error::new(code, text),
            None => Error::new(format!("{kind:?}"), text),
        }
    }
}

/// The code is `Timeout`.
impl Describe for tokio::time::error::Elapsed {
    fn describe(&self) -> Error {
        Error::new("Timeout", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_connections_have_the_codes_of_the_host() {
        for (kind, code) in [
            (io::ErrorKind::ConnectionReset, "ECONNRESET"),
            (io::ErrorKind::UnexpectedEof, "ECONNRESET"),
            (io::ErrorKind::TimedOut, "ETIMEDOUT"),
            (io::ErrorKind::PermissionDenied, "PermissionDenied"),
        ] {
            let error = io::Error::new(kind, "the reason").describe();
            assert_eq!(error, Error::new(code, "the reason"));
        }
    }
}
