//! The versions of the policy: which one decides, where the fallback does, and which ones are rolled back.
//!
//! A version that breaks whatever a message contains is rolled back with the second message within a minute, if another one was active before it. Those of the plans break in no other way.

use std::time::Duration;

use backstop_core::decision::Action;

use super::{Checker, Rule};
use crate::history::Event;
use crate::plan::PERMANENT;

/// The messages on which a version breaks before it is rolled back, and the time for them.
const BROKEN: usize = 2;
const WITHIN: Duration = Duration::from_secs(60);

/// The versions of one host.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub(super) active: usize,
    /// The one to which it can be rolled back.
    before: Option<usize>,
    /// The one that was rolled back last.
    rolled_back: Option<usize>,
    /// The ids of the messages on which the active one broke, and when it did last.
    broken: Vec<(String, Duration)>,
}

impl Versions {
    pub(super) fn starts_with(active: usize) -> Self {
        Self {
            active,
            ..Self::default()
        }
    }

    fn roll_back(&mut self) -> bool {
        let Some(before) = self.before.take() else {
            return false;
        };
        self.rolled_back = Some(self.active);
        self.active = before;
        self.broken.clear();
        true
    }

    /// Counts a message on which the active version broke, and rolls it back if these are too many.
    fn broke_on(&mut self, id: &str, at: Duration) {
        self.broken
            .retain(|(other, since)| other != id && at - *since <= WITHIN);
        self.broken.push((id.to_owned(), at));
        if self.broken.len() >= BROKEN {
            self.roll_back();
        }
    }
}

impl Checker<'_> {
    /// Which version decides, and when the fallback does.
    pub(super) fn version(
        &mut self,
        at: Duration,
        (host, number): (u64, u32),
        (attempt, version): (u32, Option<usize>),
        action: &Action,
        by: &str,
    ) {
        let versions = &self.host(host).versions;
        let (active, rolled_back) = (versions.active, versions.rolled_back);
        let none = self.plan.versions.is_empty();
        self.rule(
            Rule::ActiveVersionDecides,
            none,
            version == Some(active),
            at,
            || {
                format!(
                    "version {version:?} decides about message {number}, and {active} is active"
                )
            },
        );
        let is_older = version != rolled_back;
        self.rule(
            Rule::RolledBack,
            rolled_back.is_none(),
            is_older,
            at,
            || format!("version {version:?} decides about message {number}, and was rolled back"),
        );
        let planned = self.plan.versions.get(active).copied();
        let most = self.plan.max_attempts;
        let known = self.known(number);
        let is_permanent = known.code == Some(PERMANENT);
        // The bound decides about what the fallback would retry.
        let breaks = planned.is_some_and(|it| it.breaks_at(attempt)) && !is_permanent;
        let is_unsure = known.duplicated || attempt >= most || by == "bound";
        self.rule(
            Rule::FallbackWhereItBreaks,
            is_unsure,
            breaks == (by == "fallback"),
            at,
            || format!("{by} decides about message {number}, whose policy breaks: {breaks}"),
        );
        if let (Some(planned), Action::Retry { delay }) = (planned, action) {
            let holds = delay.0 == planned.delay;
            self.rule(Rule::DelayOfTheVersion, by != "policy", holds, at, || {
                format!(
                    "message {number} waits for {delay}, and its policy says {} ms",
                    planned.delay
                )
            });
        }
    }

    /// Counts where a version breaks. Also where a bound decides after all.
    pub(super) fn breaks(&mut self, at: Duration, event: &Event) {
        let Event::Decided {
            host,
            number,
            attempt,
            id,
            ..
        } = event
        else {
            return;
        };
        let code = self.known(*number).code;
        let versions = &mut self.hosts.entry(*host).or_default().versions;
        let planned = self.plan.versions.get(versions.active);
        // What is permanent needs no delay.
        if planned.is_some_and(|it| it.breaks_at(*attempt)) && code != Some(PERMANENT) {
            versions.broke_on(id, at);
        }
    }

    /// A host has a new version.
    pub(super) fn swapped(&mut self, at: Duration, host: u64, version: usize) {
        let versions = &mut self.host(host).versions;
        let rolled_back = versions.rolled_back.take();
        *versions = Versions {
            before: Some(versions.active),
            ..Versions::starts_with(version)
        };
        let holds = rolled_back != Some(version);
        self.rule(
            Rule::StaysRolledBack,
            rolled_back.is_none(),
            holds,
            at,
            || format!("version {version} was rolled back by host {host}, and is active again"),
        );
    }

    /// A host has looked for a new version, and there is none.
    pub(super) fn checked(&mut self, at: Duration, host: u64) {
        let is_rolled_back = self.host(host).versions.rolled_back.is_some();
        self.rule(
            Rule::StaysRolledBack,
            !is_rolled_back,
            true,
            at,
            String::new,
        );
    }

    /// An operator has rolled the policy of a host back, if there was a version before.
    pub(super) fn rolled_back(&mut self, at: Duration, host: u64, is_done: bool) {
        let can_be = self.host(host).versions.roll_back();
        self.rule(
            Rule::RolledBackByOperators,
            false,
            is_done == can_be,
            at,
            || format!("host {host} was asked to roll its policy back, which was done: {is_done}"),
        );
    }
}
