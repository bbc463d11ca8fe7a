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
            Some(session) if session.role < Role::Act => Some("Your token is for looking only."),
            Some(_) => None,
        }
    }
}
