//! What operators ask of hosts: pauses, limits and wakes, also after a restart.

use std::time::Duration;

use super::versions::Versions;
use super::{Checker, KnownHost, Rule, SLACK};
use crate::plan::Waits;

/// What a host has written to its folder by then, after a change.
const WRITTEN: Duration = Duration::from_secs(12);

/// Messages that are due so soon come by themselves.
const SOON: Duration = Duration::from_secs(6);

/// How long a wake may take.
const WOKEN: Duration = Duration::from_secs(45);

/// How long after a limit was set messages may still come that were asked for before.
const IN_HAND: Duration = Duration::from_secs(25);

impl Checker<'_> {
    pub(super) fn started(
        &mut self,
        at: Duration,
        host: u64,
        (slot, folder): (usize, Option<usize>),
        version: usize,
    ) {
        let is_paused = folder.is_some_and(|it| self.paused_folders.contains(&it));
        let known = KnownHost {
            folder,
            versions: Versions::starts_with(version),
            slot,
            unsure: self.frozen[slot].is_some(),
            started: at,
            paused: is_paused.then_some(at),
            ..KnownHost::default()
        };
        self.hosts.insert(host, known);
        self.rule(Rule::Paused, !is_paused, true, at, String::new);
    }

    pub(super) fn paused(&mut self, at: Duration, host: u64) {
        self.need_not_bring(Some(host));
        let known = self.host(host);
        known.paused.get_or_insert(at);
        let folder = known.folder;
        self.paused_folders.extend(folder);
        self.rule(Rule::Paused, false, true, at, String::new);
    }

    pub(super) fn resumed(&mut self, host: u64) {
        let known = self.host(host);
        known.paused = None;
        if let Some(folder) = known.folder {
            self.paused_folders.remove(&folder);
        }
    }

    /// An attempt begins: it may not if the host is paused, or has too many already.
    pub(super) fn controlled(&mut self, at: Duration, host: u64, number: u32) {
        let (most, thawed) = (self.plan.most, self.thawed);
        let fifo = self.plan.fifo;
        let known = self.host(host);
        known.under_way += 1;
        let (under_way, paused) = (known.under_way, known.paused);
        let narrowed = known.most.filter(|(since, _)| at >= *since + IN_HAND);
        let narrowed = narrowed.filter(|_| !fifo).map(|(_, most)| most);
        // Handed to the worker before, which was frozen.
        let was_frozen = at <= thawed + SLACK;
        let is_paused = paused.is_some_and(|since| at > since + SLACK);
        let excused = paused.is_none() || was_frozen;
        self.rule(Rule::Paused, excused, !is_paused, at, || {
            format!("host {host} attempts message {number} while it is paused")
        });
        let most = narrowed.unwrap_or(most).max(1);
        self.rule(Rule::WithinMost, false, under_way <= most, at, || {
            format!("host {host} makes {under_way} attempts at once, and {most} is the most")
        });
    }

    /// A message is received: not more of them than the rate allows.
    pub(super) fn rated(&mut self, at: Duration, host: u64) {
        let known = self.host(host);
        let Some((since, rate, received)) = &mut known.rate else {
            return;
        };
        // What was asked for before.
        if at < *since + IN_HAND {
            return;
        }
        *received += 1;
        let seconds = (at - *since - IN_HAND).as_secs() + 1;
        // A second is saved up, and a poll may bring ten.
        let most = u64::from(*rate) * (seconds + 1) + 10;
        let (received, rate) = (u64::from(*received), *rate);
        self.rule(Rule::WithinRate, false, received <= most, at, || {
            format!("host {host} has received {received} messages in {seconds} s, with a rate of {rate}/s")
        });
    }

    /// A wake: whatever waits has come some time later, unless something prevents it.
    pub(super) fn woken(&mut self, at: Duration, host: u64) {
        let knows: Vec<_> = self
            .messages
            .iter()
            .filter(|(_, known)| {
                let Some(due) = known.due else { return false };
                let Some(kept) = due.kept else { return false };
                known.visible > at + SOON
                    && !known.may(at)
                    && !known.gone
                    && (due.by == host || self.has_taken_over(at, host, due.by, kept))
            })
            .map(|(number, _)| *number)
            .collect();
        let is_invisible = self.plan.waits == Waits::Invisible;
        for (number, known) in &mut self.messages {
            if is_invisible && knows.contains(number) {
                known.wake.get_or_insert(at + WOKEN);
            }
            known.excused = true;
        }
    }

    /// Whether a host knows what another one has kept at this time.
    fn has_taken_over(&self, at: Duration, host: u64, other: u64, kept: Duration) -> bool {
        let (Some(host), Some(other)) = (self.hosts.get(&host), self.hosts.get(&other)) else {
            return false;
        };
        let ended = match (other.ended, other.killed) {
            (Some(ended), None) => ended,
            (None, Some(killed)) if kept + WRITTEN <= killed => killed,
            _ => return false,
        };
        // Of two hosts, nobody knows which one takes it over.
        let others = self.hosts.values().filter(|it| it.folder == host.folder);
        let at_work = others.filter(|it| it.ended.is_none() && it.killed.is_none());
        host.folder.is_some()
            && host.folder == other.folder
            && at_work.count() == 1
            && at >= host.started.max(ended) + WRITTEN
    }

    /// Looks whether what was woken has come.
    pub(super) fn wakes(&mut self, at: Duration) {
        let mut late = Vec::new();
        for (number, known) in &mut self.messages {
            if known.wake.is_some_and(|until| until < at) {
                known.wake = None;
                late.push(*number);
            }
        }
        for number in late {
            self.rule(Rule::Woken, false, false, at, || {
                format!("message {number} was woken, and has not come")
            });
        }
    }
}
