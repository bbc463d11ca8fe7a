//! One route: its method, its path, and the function that answers it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;
use percent_encoding::percent_decode_str;

use super::answer::{Answer, Refused};
use super::call::Call;
use super::interface::Interface;
use crate::config::AdminRole;

/// A path, its method, what it takes and answers, and the function that answers it.
pub struct Route {
    pub(super) verb: Verb,
    /// `{}` as the last part stands for any text.
    pub(super) path: &'static str,
    /// The query as the documents show it, or the name of an action's body.
    pub(super) takes: &'static str,
    /// The name of the answer; `text` is not JSON.
    pub answer: &'static str,
    /// What it does, for the documents.
    pub meaning: &'static str,
    /// The role that it needs if it is more than its [verb](Verb) needs: that of answers with bodies of messages.
    pub(super) needs: Option<AdminRole>,
    pub(super) run: Run,
}

/// Answers a call.
pub(super) type Run = fn(Arc<Interface>, Call) -> BoxFuture<'static, Result<Answer, Refused>>;

/// What a route does: it reads something, or is an action that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Reads, and needs no token: probes of the platform have none.
    Probe,
    Read,
    /// Sent as a POST with a body of JSON, and logged.
    Action,
}

impl Verb {
    pub(super) fn accepts(self, method: &Method) -> bool {
        match self {
            Self::Probe | Self::Read => [Method::GET, Method::HEAD].contains(method),
            Self::Action => method == Method::POST,
        }
    }

    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Probe | Self::Read => "GET, HEAD",
            Self::Action => "POST",
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Route {
    /// The method and path, as the documents show them: `GET /v1/messages/ID`.
    pub fn shown(&self) -> String {
        let method = match self.verb {
            Verb::Probe | Verb::Read => "GET",
            Verb::Action => "POST",
        };
        format!("{method} {}", self.path.replace("{}", "ID"))
    }

    /// The least role of those who may use it. A probe needs none.
    pub(super) fn least(&self) -> Option<AdminRole> {
        let by_verb = match self.verb {
            Verb::Probe => None,
            Verb::Read => Some(AdminRole::View),
            Verb::Action => Some(AdminRole::Act),
        };
        by_verb.max(self.needs)
    }

    /// Refuses those whose role is not enough. It is the only check of a route's role: for requests, and for what the page asks on behalf of somebody.
    pub(super) fn admit(&self, role: AdminRole) -> Result<(), Refused> {
        self.least()
            .map_or(Ok(()), |least| Refused::unless(role, least))
    }

    /// The query as the documents show it, `?queue=…`. It is empty if there is none.
    pub fn query(&self) -> &'static str {
        match self.verb {
            Verb::Probe | Verb::Read => self.takes,
            Verb::Action => "",
        }
    }

    /// The name of the body of an action.
    pub fn body(&self) -> Option<&'static str> {
        match self.verb {
            Verb::Probe | Verb::Read => None,
            Verb::Action => Some(self.takes),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn route(verb: Verb, needs: Option<AdminRole>) -> Route {
        Route {
            verb,
            path: "/v1/letters",
            takes: "",
            answer: "letters",
            meaning: "",
            needs,
            run: |_, _| Box::pin(async { Err(Refused::not_found("nothing")) }),
        }
    }

    #[test]
    fn a_route_with_bodies_is_closed_to_those_who_may_only_look() {
        const ALL: [AdminRole; 3] = [AdminRole::View, AdminRole::Bodies, AdminRole::Act];
        for (verb, needs, admitted) in [
            (Verb::Probe, None, [true, true, true]),
            (Verb::Read, None, [true, true, true]),
            (Verb::Read, Some(AdminRole::Bodies), [false, true, true]),
            (Verb::Action, None, [false, false, true]),
            // Naming a role opens no action to others.
            (Verb::Action, Some(AdminRole::Bodies), [false, false, true]),
        ] {
            let route = route(verb, needs);
            let found = ALL.map(|role| route.admit(role).is_ok());
            assert_eq!(found, admitted, "{verb:?} {needs:?}");
        }
        let refused = route(Verb::Read, Some(AdminRole::Bodies)).admit(AdminRole::View);
        let refused = refused.unwrap_err();
        assert_eq!(refused.access(), Some("role"));
        assert!(refused.to_string().contains("admin-bodies-token-file"));
    }
}
