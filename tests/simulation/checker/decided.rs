//! Decisions: who made them, and what they may be.

use std::time::Duration;

use backstop_core::decision::Action;

use super::known::Due;
use super::{Checker, Rule, SLACK};
use crate::history::Event;
use crate::plan::{PERMANENT, Waits};

impl Checker<'_> {
    pub(super) fn decided(&mut self, at: Duration, number: u32, action: &Action, event: &Event) {
        let Event::Decided {
            host,
            attempt,
            by,
            version,
            ..
        } = event
        else {
            return;
        };
        let (host, attempt) = (*host, *attempt);
        self.version(at, (host, number), (attempt, *version), action, by);
        self.breaks(at, event);
        self.leaves(at, event);
        // Of one that has succeeded, a host forgets what it knows.
        let strict = self.counts(host, number) && !self.known(number).succeeded;
        let most = self.plan.max_attempts;
        let waits = self.plan.waits;
        let known = self.known(number);
        let (receives, attempts) = (known.receives, known.attempts);
        let may_be_fewer = known.interrupted || known.succeeded;
        // Somebody else may have it by now.
        let code = known.code;
        let is_visible = at + SLACK >= known.visible;
        let may_be = known.may(at);
        known.duplicated |= is_visible;
        self.rule(Rule::KeptInvisible, may_be, !is_visible, at, || {
            format!("message {number} was not kept invisible while it was attempted")
        });
        let known = self.known(number);
        let (is_duplicated, is_permanent) = (known.duplicated, code == Some(PERMANENT));
        match action {
            Action::Retry { delay } => {
                let delay = Duration::from_millis(delay.0.into());
                let ends = known.dropped;
                let is_unsure = known.may(at) || waits != Waits::Invisible;
                known.excused &= !known.under_way.is_empty();
                if known.holder == host {
                    known.due = Some(Due {
                        by: host,
                        at: at + delay,
                        kept: None,
                    });
                } else {
                    known.excused = true;
                }
                self.rule(Rule::WithinRetention, is_unsure, at + delay <= ends, at, || {
                    format!("message {number} is retried in {delay:?}, when its queue has dropped it")
                });
                self.rule(Rule::GivenUpAtItsBound, false, attempt < most, at, || {
                    format!("message {number} is retried after attempt {attempt} of {most}")
                });
                let may = is_duplicated || by == "fallback";
                self.rule(Rule::PermanentDies, may, !is_permanent, at, || {
                    format!("message {number} is retried, with {code:?}")
                });
            }
            Action::DeadLetter { reason } => {
                known.reasons.insert(reason.clone());
                // A queue that drops messages soon gives a reason, too.
                let is_short = known.dropped < at + Duration::from_secs(3 * 3_600);
                let may = is_short || is_duplicated;
                let holds = is_permanent || attempt >= most;
                self.rule(Rule::GivenUpAtItsBound, may, holds, at, || {
                    format!("message {number} is given up at attempt {attempt} of {most}: {reason}")
                });
            }
            Action::Discard { .. } => {}
        }
        let is_discarded = matches!(action, Action::Discard { .. });
        self.rule(Rule::NotDiscarded, false, !is_discarded, at, || {
            format!("message {number} is discarded, which no policy asked for")
        });
        self.rule(
            Rule::CountedReceives,
            false,
            attempt <= receives,
            at,
            || {
                format!(
                    "message {number} is at attempt {attempt}, and was received {receives} times"
                )
            },
        );
        // One that was broken off may count or not, and one that succeeded counts for nothing.
        let holds = attempt == attempts || attempt < attempts && may_be_fewer;
        self.rule(Rule::CountedAttempts, !strict, holds, at, || {
            format!("message {number} is at attempt {attempt}, and the worker has seen {attempts}")
        });
    }

    /// Whether a host knows how many of a message's receives were attempts. On a FIFO queue, it counts its own attempts.
    pub(super) fn counts(&self, host: u64, number: u32) -> bool {
        let Some(known) = self.messages.get(&number) else {
            return false;
        };
        let is_own = |it: &u64| *it == host;
        // Of a message that was sent again, nothing is written.
        let is_known =
            |it: &u64| is_own(it) || known.copies == 0 && self.has_handed_over(*it, host);
        !known.uncounted
            && !known.duplicated
            && if self.plan.fifo {
                known.attempted_by.iter().all(is_own)
            } else {
                known.idle.iter().all(is_known)
            }
    }

    /// Whether a host has written which receives were no attempts when it was stopped, and another one has read it.
    fn has_handed_over(&self, from: u64, to: u64) -> bool {
        let (Some(from), Some(to)) = (self.hosts.get(&from), self.hosts.get(&to)) else {
            return false;
        };
        let is_alone = self.hosts.values().all(|other| {
            let is_same = other.folder == to.folder;
            !is_same || other.started <= from.started || other.started >= to.started
        });
        let ended = from.ended.filter(|_| from.killed.is_none());
        is_alone
            && to.folder.is_some()
            && from.folder == to.folder
            && ended.is_some_and(|ended| ended < to.started)
    }
}
