//! The codes of network errors, named as in Node.js.

use std::io::ErrorKind;

/// The code of an I/O error of a connection, such as `ECONNRESET`; `None` if this kind is no error of a connection.
///
/// ```
/// use std::io::ErrorKind;
///
/// use backstop_core::network;
///
/// assert_eq!(network::code(ErrorKind::ConnectionRefused), Some("ECONNREFUSED"));
/// assert_eq!(network::code(ErrorKind::NotFound), None);
/// ```
pub fn code(kind: ErrorKind) -> Option<&'static str> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most kinds are about files, and the standard library adds more"
    )]
    match kind {
        ErrorKind::ConnectionRefused => Some("ECONNREFUSED"),
        // The other side closed the connection in the middle of a response.
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => Some("ECONNRESET"),
        ErrorKind::ConnectionAborted => Some("ECONNABORTED"),
        ErrorKind::BrokenPipe => Some("EPIPE"),
        ErrorKind::HostUnreachable => Some("EHOSTUNREACH"),
        ErrorKind::NetworkUnreachable => Some("ENETUNREACH"),
        ErrorKind::NetworkDown => Some("ENETDOWN"),
        ErrorKind::TimedOut => Some("ETIMEDOUT"),
        _ => None,
    }
}
