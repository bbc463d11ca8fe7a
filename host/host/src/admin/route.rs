//! One route: its method, its path, and the function that answers it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;
use percent_encoding::percent_decode_str;

use super::answer::{Answer, Refused};
use super::call::Call;
use super::interface::Interface;

/// A path, its method, and the function that answers it.
pub(super) struct Route {
    pub(super) method: Verb,
    /// `{}` as the last part stands for any text.
    pub(super) path: &'static str,
    /// Whether it needs no token: probes of the platform have none.
    pub(super) is_open: bool,
    pub(super) run: Run,
}

/// Answers a call.
pub(super) type Run = fn(Arc<Interface>, Call) -> BoxFuture<'static, Result<Answer, Refused>>;

/// What a route does: it reads something, or is an action that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    /// Sent as a POST with a body of JSON, and logged.
    Action,
}

impl Verb {
    pub(super) fn accepts(self, method: &Method) -> bool {
        match self {
            Self::Read => [Method::GET, Method::HEAD].contains(method),
            Self::Action => method == Method::POST,
        }
    }

    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Read => "GET, HEAD",
            Self::Action => "POST",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.method {
            Verb::Read => "GET",
            Verb::Action => "POST",
        };
        write!(f, "{method} {}", self.path)
    }
}

impl Route {
    /// A route that reads.
    pub(super) const fn read(path: &'static str, run: Run) -> Self {
        Self {
            method: Verb::Read,
            path,
            is_open: false,
            run,
        }
    }

    /// A route that changes something.
    pub(super) const fn action(path: &'static str, run: Run) -> Self {
        Self {
            method: Verb::Action,
            path,
            is_open: false,
            run,
        }
    }

    /// Needs no token.
    pub(super) const fn open(self) -> Self {
        Self {
            is_open: true,
            ..self
        }
    }

    /// The variable part of a path of this route, decoded; empty if there is none.
    pub(super) fn variable(&self, path: &str) -> Option<String> {
        match self.path.strip_suffix("{}") {
            Some(start) => {
                let rest = path.strip_prefix(start)?;
                let is_one_part = !rest.is_empty() && !rest.contains('/');
                let decoded = percent_decode_str(rest).decode_utf8().ok()?;
                is_one_part.then(|| decoded.into_owned())
            }
            None => (self.path == path).then(String::new),
        }
    }
}
