//! The end of a history: everything has ended, or is left where it waits.

use std::time::Duration;

use super::{Checker, Rule, SLACK};
use crate::history::History;
use crate::plan::Waits;

/// A visibility timeout has no less, and a receive takes a moment.
const WHOLE_SECONDS: Duration = Duration::from_secs(3);

impl Checker<'_> {
    /// A message that waited when the hosts had stopped.
    pub(super) fn found(&mut self, at: Duration, number: u32) {
        let (invisible, fifo) = (self.plan.waits == Waits::Invisible, self.plan.fifo);
        // Nobody has received it before.
        let stopped = self.hosts.values().filter_map(|host| host.ended).max();
        let stopped = stopped.unwrap_or_default();
        let known = self.known(number);
        if let Some(held) = known.held {
            let (excused, latest) = (known.may(at), held.until.max(stopped) + WHOLE_SECONDS);
            known.succeeded = true;
            return self.rule(Rule::WaitsUntilDue, excused, at <= latest, at, || {
                format!("message {number} comes now, and was held back: {held:?}")
            });
        }
        let due = known.due.filter(|due| due.kept.is_some());
        let excused = known.may(at) || !invisible || due.is_none();
        // Whole seconds, and on a FIFO queue others of the group are before it.
        let more = if fifo {
            Duration::from_secs(1_300)
        } else {
            WHOLE_SECONDS
        };
        let latest = due.map(|due| due.at.max(stopped) + more);
        let holds =
            due.is_some_and(|due| at + SLACK >= due.at) && latest.is_some_and(|it| at <= it);
        known.succeeded = true;
        self.rule(Rule::WaitsUntilDue, excused, holds, at, || {
            format!("message {number} comes now, and was due at {due:?}")
        });
    }

    pub(super) fn end(&mut self, history: &History) {
        let end = history.events.last().map(|(at, _)| *at).unwrap_or_default();
        let unended = history.unended.join("; ");
        let all_ended = history.unended.is_empty();
        self.rule(Rule::EverythingEnds, false, all_ended, end, || unended);
        let left: Vec<_> = self
            .messages
            .iter()
            .map(|(number, known)| (*number, known.has_ended(), known.dropped <= end))
            .collect();
        for (number, has_ended, is_dropped) in left {
            self.rule(Rule::Ends, is_dropped, has_ended, end, || {
                format!("message {number} is lost: it is neither done nor dead")
            });
        }
        // A poll each second or two by each host, and some requests for each receive.
        let polls = end.as_secs() * 12;
        let receives = self.messages.values();
        let receives: u64 = receives
            .map(|it| u64::from(it.receives + it.sent_back))
            .sum();
        let most = 3_000 + polls + receives * 40;
        self.rule(
            Rule::BoundedRequests,
            false,
            history.requests <= most,
            end,
            || format!("{} requests, and {most} are plenty", history.requests),
        );
    }
}
