//! The codes of network errors, named as in Node.js, and what to do about a request to AWS that names no region.

use std::io::{self, ErrorKind};

/// What to do if requests to AWS have no region.
pub const SET_A_REGION: &str =
    "no AWS region is set: set AWS_REGION, or a region in the profile that AWS_PROFILE names";

/// Whether the text of an SDK's error says that no region is set: it has no type for it, and several texts.
///
/// ```
/// use backstop_core::network::lacks_region;
///
/// assert!(lacks_region("dispatch failure: other: missing signing region"));
/// assert!(lacks_region("Invalid Configuration: Missing Region"));
/// assert!(!lacks_region("the bucket is in another region"));
/// ```
pub fn lacks_region(error: &str) -> bool {
    const TEXTS: [&str; 3] = [
        "Missing Region",
        "region must be set",
        "missing signing region",
    ];
    TEXTS.iter().any(|text| error.contains(text))
}

/// The code of an error that says that this machine is short of something for now: file descriptors, processes, memory, ports.
///
/// ```
/// use std::io::Error;
///
/// use backstop_core::network;
///
/// assert_eq!(network::lack(&Error::from_raw_os_error(24)), Some("EMFILE"));
/// assert_eq!(network::lack(&Error::from_raw_os_error(2)), None);
/// ```
pub fn lack(error: &io::Error) -> Option<&'static str> {
    let number = error.raw_os_error()?;
    let (_, code) = LACKS.iter().find(|(errno, _)| *errno == number)?;
    Some(code)
}

/// By their numbers, which are the same on Linux's processors; `ENOBUFS` and `EADDRNOTAVAIL` have others elsewhere.
#[cfg(target_os = "linux")]
const LACKS: [(i32, &str); 7] = [
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (26, "ETXTBSY"),
    (99, "EADDRNOTAVAIL"),
    (105, "ENOBUFS"),
];
#[cfg(not(target_os = "linux"))]
const LACKS: [(i32, &str); 7] = [
    (35, "EAGAIN"),
    (12, "ENOMEM"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (26, "ETXTBSY"),
    (49, "EADDRNOTAVAIL"),
    (55, "ENOBUFS"),
];

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
