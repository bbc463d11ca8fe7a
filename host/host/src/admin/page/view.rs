//! What every view is made from: who looks, at what, and the hosts that answer.

use backstop_core::failure::Timestamp;

use super::fleet::Fleet;
use super::session::Session;
use crate::admin::caller::Caller;
use crate::admin::guard::Role;

/// A request for a view.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) by: Caller,
    pub(super) session: Option<Session>,
    pub(super) query: Vec<(String, String)>,
    pub(super) now: Timestamp,
}

impl View<'_> {
    /// Whether a field was sent with nothing but blanks in it.
    pub(super) fn is_blank(&self, name: &str) -> bool {
        self.query
            .iter()
            .any(|(given, value)| given == name && value.trim().is_empty())
    }

    /// The last value of a parameter, unless it is empty: forms send empty fields, too.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut named = self.query.iter().rev().filter(|(given, _)| given == name);
        let (_, value) = named.next()?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// All values of a parameter that are not empty.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(given, _)| given == name);
        named
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// Why this person may not act, if so.
    pub(super) fn may_not_act(&self) -> Option<&'static str> {
        match &self.session {
            None => Some("Sign in first: every action is logged with a name."),
            Some(session) if session.role < Role::Act => Some("You may look only."),
            Some(_) => None,
        }
    }

    /// Why this person may not see the bodies of messages, if so.
    pub(super) fn may_see_bodies(&self) -> Option<&'static str> {
        (self.by.role() < Role::Bodies)
            .then_some("You may look, and not see the bodies of messages.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::interface::Interface;
    use crate::http_server::Peer;
    use hyper::HeaderMap;

    #[test]
    fn bodies_are_seen_with_the_role_for_it_and_by_those_who_act() {
        let fleet = Fleet::new(Interface::of(Vec::new()), Vec::new(), None);
        let peer = Peer::Address("10.0.0.1:4242".parse().unwrap());
        for (role, may_see, may_act) in [
            (None, false, false),
            (Some(Role::View), false, false),
            (Some(Role::Bodies), true, false),
            (Some(Role::Act), true, true),
        ] {
            let by = Caller::of(peer, &HeaderMap::new());
            let view = View {
                fleet: &fleet,
                by: role.map_or(by.clone(), |role| by.who_may(role)),
                session: role.map(|role| Session {
                    name: "ana".to_owned(),
                    role,
                    is_by_proxy: false,
                }),
                query: Vec::new(),
                now: Timestamp(0),
            };
            assert_eq!(view.may_see_bodies().is_none(), may_see, "{role:?}");
            assert_eq!(view.may_not_act().is_none(), may_act, "{role:?}");
        }
    }
}
