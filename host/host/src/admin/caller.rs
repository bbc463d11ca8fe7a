//! Who sends a request, for the log.

use std::fmt;

use backstop_core::text::{cut, one_line};
use hyper::HeaderMap;

use crate::config::AdminRole;
use crate::http_server::Peer;

/// The header in which a client may say who its user is.
pub(super) const USER: &str = "x-backstop-user";

/// The most bytes of a name that are logged: that of a proxy with its address has to be whole at other hosts, too.
const NAME_BYTES: usize = 320;

/// The name of who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// The client gives it to its user. Nothing proves it.
    Claimed(String),
    /// The proxy has signed its owner in.
    ByProxy(String),
}

/// Who sends a request. `Display` is for the log: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    peer: Peer,
    name: Option<Name>,
    /// What the sender may do, as far as a token says.
    role: AdminRole,
}

impl Caller {
    /// Somebody with this name, who looks at the page.
    pub(super) fn named(self, name: &str) -> Self {
        let mut name = name.to_owned();
        cut(&mut name, NAME_BYTES);
        Self {
            name: Some(name)
                .filter(|name| !name.is_empty())
                .map(Name::Claimed),
            ..self
        }
    }

    /// What other hosts are to log: the name, and where the request came from.
    pub(super) fn for_others(&self) -> String {
        match (&self.name, self.peer) {
            (Some(Name::Claimed(name)), Peer::Address(address)) => {
                format!("{name} from {}", address.ip())
            }
            (Some(Name::ByProxy(name)), Peer::Address(address)) => {
                format!("{name} by the proxy {}", address.ip())
            }
            (Some(Name::Claimed(name) | Name::ByProxy(name)), Peer::Process { .. }) => name.clone(),
            (None, _) => self.to_string(),
        }
    }

    /// The sender of a request with these headers.
    pub(super) fn of(peer: Peer, headers: &HeaderMap) -> Self {
        let claimed = headers.get(USER).map(|name| {
            let mut name = String::from_utf8_lossy(name.as_bytes()).into_owned();
            cut(&mut name, NAME_BYTES);
            name
        });
        Self {
            peer,
            name: claimed.map(Name::Claimed),
            role: AdminRole::View,
        }
    }

    /// This process itself.
    pub(super) fn this_process() -> Self {
        let peer = Peer::Process {
            uid: rustix::process::getuid().as_raw(),
            pid: i32::try_from(std::process::id()).ok(),
        };
        Self::of(peer, &HeaderMap::new()).who_may(AdminRole::Act)
    }

    /// Somebody whom the proxy at this address names.
    pub(super) fn by_proxy(peer: Peer, name: &str) -> Self {
        Self {
            peer,
            name: Some(Name::ByProxy(name.to_owned())),
            role: AdminRole::View,
        }
    }

    /// The same sender, who may do this.
    pub(super) fn who_may(self, role: AdminRole) -> Self {
        Self { role, ..self }
    }

    /// What the sender may do.
    pub(super) const fn role(&self) -> AdminRole {
        self.role
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Peer::Process { uid, pid } => {
                write!(f, "user {uid}")?;
                if let Some(pid) = pid {
                    write!(f, ", process {pid}")?;
                }
            }
            Peer::Address(address) => write!(f, "{address}")?,
        }
        match &self.name {
            Some(Name::Claimed(name)) => write!(f, " (claims to be `{}`)", one_line(name)),
            Some(Name::ByProxy(name)) => write!(f, " (`{}`, by proxy)", one_line(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_name_is_one_short_line_that_says_so() {
        let mut headers = HeaderMap::new();
        let peer = Peer::Process {
            uid: 1000,
            pid: Some(7),
        };
        let shown = Caller::of(peer, &headers).to_string();
        assert_eq!(shown, "user 1000, process 7");
        headers.insert(USER, "ana".parse().unwrap());
        let peer = Peer::Address("10.0.0.1:4242".parse().unwrap());
        let shown = Caller::of(peer, &headers).to_string();
        assert_eq!(shown, "10.0.0.1:4242 (claims to be `ana`)");
        let proven = Caller::by_proxy(peer, "ana\u{9b}31m");
        let shown = proven.to_string();
        assert_eq!(shown, "10.0.0.1:4242 (`ana\\u{9b}31m`, by proxy)");
        assert_eq!(proven.for_others(), "ana\u{9b}31m by the proxy 10.0.0.1");
        let long = [b"\xc2\x9b31m".as_slice(), &[b'x'; 5_000]].concat();
        headers.insert(USER, long.as_slice().try_into().unwrap());
        let shown = Caller::of(peer, &headers).to_string();
        assert!(shown.len() < 420 && !shown.contains('\u{9b}'), "{shown}");
    }
}
