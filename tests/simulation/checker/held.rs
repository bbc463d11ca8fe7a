//! Messages that are held back: made invisible without an attempt, because what is behind their tenant is down, or it is at a limit.

use std::time::Duration;

use super::breaker::Behind;
use super::{Checker, Rule};
use crate::plan::Waits;

/// How long a host may leave what it holds back, when it attempts nothing: the longest pause, and the time for requests.
const LONGEST: Duration = Duration::from_secs(90);

/// How long attempts under way may keep it from that: the longest takes 200 s.
const BUSY: Duration = Duration::from_secs(300);

/// The longest time for which a message is held back at once, if its breaker is open or if it is at a limit.
const DOWN: u32 = 661;
const LIMITED: u32 = 3_600;

/// A message that is held back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    by: u64,
    /// When it comes by itself.
    pub(super) until: Duration,
    /// When its host has brought it, unless something keeps it from that.
    comes: Option<Duration>,
}

impl Checker<'_> {
    /// A message is made invisible. It is held back if whoever has received it has not attempted it, and renews no visibility timeout.
    pub(super) fn held_back(&mut self, at: Duration, host: u64, number: u32, seconds: u32) {
        let plan = self.plan;
        let known = self.known(number);
        let is_held = plan.has_keys()
            && plan.waits == Waits::Invisible
            && known.pending == Some(host)
            && seconds > plan.visibility;
        if !is_held {
            return self.no_longer_held(at, number);
        }
        known.due = None;
        known.held = Some(Held {
            by: host,
            until: at + Duration::from_secs(seconds.into()),
            comes: Some(at),
        });
        let (excused, dropped) = (known.may(at), known.dropped);
        let comes = at + Duration::from_secs(seconds.into());
        self.put_off(at, host);
        self.rule(Rule::WithinRetention, excused, comes <= dropped, at, || {
            format!("host {host} holds message {number} back until its queue has dropped it")
        });
        // A limit is a reason at any time.
        if let Some(breaking) = plan.breaker.filter(|_| plan.limits.is_none()) {
            let known = self.host(host);
            let unsure = known.unsure;
            let behind = known.behind.get(&breaking.key(number));
            let may = behind.is_some_and(|it| it.may_hold_back(at));
            self.rule(Rule::HeldBackWhereDown, excused || unsure, may, at, || {
                format!("host {host} holds message {number} back, and nothing is down")
            });
        }
        let longest = if plan.limits.is_some() { LIMITED } else { DOWN };
        self.rule(
            Rule::HeldBackForAWhile,
            false,
            seconds <= longest,
            at,
            || format!("host {host} holds message {number} back for {seconds} s"),
        );
    }

    /// An attempt of a host begins or ends: what it holds back may have to wait for another one.
    pub(super) fn put_off(&mut self, at: Duration, host: u64) {
        let breaking = self.plan.breaker;
        let by = self.hosts.entry(host).or_default();
        for (number, known) in &mut self.messages {
            if let Some(held) = known.held.as_mut().filter(|it| it.by == host)
                && let Some(comes) = &mut held.comes
            {
                let behind = breaking.and_then(|it| by.behind.get(&it.key(*number)));
                let until = behind.and_then(Behind::until).unwrap_or_default();
                let until = if by.under_way > 0 {
                    at.max(until) + BUSY
                } else {
                    at.max(until) + LONGEST
                };
                *comes = until.max(*comes);
            }
        }
    }

    /// Something may keep a host, or all of them, from bringing back what is held back.
    pub(super) fn need_not_bring(&mut self, host: Option<u64>) {
        let all = self.messages.values_mut();
        let held = all.filter_map(|it| it.held.as_mut());
        for held in held.filter(|it| host.is_none_or(|host| it.by == host)) {
            held.comes = None;
        }
    }

    /// Looks whether what was held back has come.
    pub(super) fn brings(&mut self, at: Duration) {
        let mut late = Vec::new();
        for (number, known) in &mut self.messages {
            if let Some(held) = &mut known.held
                && held.comes.is_some_and(|comes| comes < at)
            {
                held.comes = None;
                let has_come = known.gone || at >= held.until.min(known.dropped);
                late.push((*number, held.by, has_come));
            }
        }
        for (number, host, has_come) in late {
            self.rule(Rule::HeldBackComes, has_come, false, at, || {
                format!("host {host} holds message {number} back, and does not bring it")
            });
        }
    }

    /// A message that was held back comes. Its host brought it, or it came by itself.
    pub(super) fn no_longer_held(&mut self, at: Duration, number: u32) {
        let known = self.known(number);
        let was_held = known.held.take().is_some_and(|it| it.comes.is_some());
        self.rule(Rule::HeldBackComes, !was_held, true, at, String::new);
    }
}
