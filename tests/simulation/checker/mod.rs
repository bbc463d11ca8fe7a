//! What must hold in every history, seen from outside alone.

mod breaker;
mod controls;
mod decided;
mod each;
mod end;
mod held;
mod known;
mod letters;
mod rule;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::history::{Event, History};
use super::plan::{HOSTS, Plan, Waits};
use known::{Hosts, Known, KnownHost};
pub(crate) use rule::{ALL as RULES, Rule, Verdict};

/// More than latency between two events that follow from each other.
const SLACK: Duration = Duration::from_millis(100);

/// How much before its due time a message may be attempted that was sent again: its host's clock may be another one, and a hop that would be shorter makes no sense.
const EARLY: Duration = Duration::from_secs(1);

/// How long a request that went wrong may hold up others: until it is known to have failed, and is repeated.
const DOUBT: Duration = Duration::from_secs(65);

/// Checks a history.
pub(crate) fn check(plan: &Plan, history: &History) -> Verdict {
    let mut checker = Checker {
        plan,
        verdict: Verdict::default(),
        messages: BTreeMap::new(),
        hosts: Hosts::new(),
        sent: Vec::new(),
        paused_folders: BTreeSet::new(),
        frozen: [None; HOSTS],
        thawed: Duration::ZERO,
    };
    for (at, event) in &history.events {
        checker.wakes(*at);
        checker.brings(*at);
        checker.see(*at, event);
    }
    checker.end(history);
    checker.verdict
}

struct Checker<'a> {
    plan: &'a Plan,
    verdict: Verdict,
    messages: BTreeMap<u32, Known>,
    hosts: Hosts,
    /// In the order of the queue.
    sent: Vec<u32>,
    /// The folders in which a pause is kept.
    paused_folders: BTreeSet<usize>,
    /// Since when the hosts of each slot are frozen.
    frozen: [Option<Duration>; HOSTS],
    /// When a host went on last after it was frozen.
    thawed: Duration,
}

impl Checker<'_> {
    fn known(&mut self, number: u32) -> &mut Known {
        self.messages.entry(number).or_default()
    }

    fn host(&mut self, host: u64) -> &mut KnownHost {
        self.hosts.entry(host).or_default()
    }

    /// A rule that has to hold, unless something `excuses` the opposite.
    fn rule(
        &mut self,
        rule: Rule,
        excuses: bool,
        holds: bool,
        at: Duration,
        text: impl FnOnce() -> String,
    ) {
        if excuses {
            return;
        }
        *self.verdict.asked.entry(rule).or_default() += 1;
        if !holds {
            let text = format!("{:.3}s: {}", at.as_secs_f64(), text());
            self.verdict.wrong.push(text);
        }
    }

    fn see(&mut self, at: Duration, event: &Event) {
        match event {
            Event::Sent { number } => {
                self.sent.push(*number);
                let retention = self.plan.retention;
                let known = self.known(*number);
                known.dropped = at + retention;
                known.in_queue += 1;
            }
            Event::Started {
                host,
                slot,
                folder,
                version,
            } => self.started(at, *host, (*slot, *folder), *version),
            Event::Ended { host } => self.host(*host).ended = Some(at),
            // What a host had in hand comes again when its visibility timeout ends, or at once.
            Event::Killed { host } => {
                self.host(*host).killed = Some(at);
                self.excuse(*host);
            }
            Event::Stopping { host } => {
                self.host(*host).stopping = true;
                self.excuse(*host);
            }
            Event::Frozen { slot } => {
                self.frozen[*slot] = Some(at);
                self.excuse_all();
                let all = self.hosts.values_mut();
                for host in all.filter(|it| it.slot == *slot && it.ended.is_none()) {
                    host.unsure = true;
                }
            }
            Event::Thawed { slot } => {
                self.frozen[*slot] = None;
                self.thawed = at;
                self.excuse_all();
            }
            Event::Received {
                host,
                number,
                count,
            } => self.received(at, *host, *number, *count),
            // Also a heartbeat that comes between a decision and its outcome.
            Event::Hidden {
                host,
                number,
                seconds,
            } => {
                self.hidden(at, *number, *seconds);
                self.held_back(at, *host, *number, *seconds);
            }
            Event::Duplicated { number, .. } => {
                let known = self.known(*number);
                known.receives += 1;
                known.duplicated = true;
                known.redelivered = true;
            }
            Event::Faulty {
                number, operation, ..
            } => self.faulty(at, *number, operation),
            Event::Counted { host, in_flight } => {
                let host = self.host(*host);
                host.in_flight = host.in_flight.max(*in_flight);
            }
            Event::Deleted { host, number } => {
                let known = self.known(*number);
                known.deleted_by = Some(*host);
                let may = known.succeeded || known.letters > 0 || known.copies > 0;
                known.gone = true;
                known.in_queue = known.in_queue.saturating_sub(1);
                known.wake = None;
                self.rule(Rule::DeletedWhenDone, false, may, at, || {
                    format!("message {number} is deleted, and neither done nor dead")
                });
            }
            Event::Copied { host, number } => self.copied(at, *host, *number),
            Event::Letter { number, reason, .. } => self.letter(at, *number, reason.as_deref()),
            Event::SentBack { number, .. } => self.sent_back(at, *number),
            Event::LetterDeleted { number, .. } => self.letter_deleted(at, *number),
            Event::RedriveBegan { .. } | Event::RedriveEnded { .. } => {}
            Event::AttemptBegan {
                host,
                number,
                count,
            } => {
                // By an old receipt handle, nothing that is decided can be applied.
                let known = self.known(*number);
                known.duplicated |= *count < known.count;
                self.began(at, *host, *number);
                self.controlled(at, *host, *number);
                self.has_turn(at, *host, *number);
                self.enters(at, *host, *number);
                self.put_off(at, *host);
            }
            Event::AttemptEnded {
                host,
                number,
                fails,
            } => {
                let known = self.known(*number);
                known.succeeded |= fails.is_none();
                known.code = *fails;
                known.under_way.retain(|it| it != host);
                let known = self.host(*host);
                known.under_way = known.under_way.saturating_sub(1);
                self.ends_turn(*host, *number);
                if fails.is_none() {
                    self.is_up(at, *host, *number);
                }
                self.put_off(at, *host);
            }
            Event::Unavailable { host, number } => {
                self.known(*number).excused = true;
                self.need_not_bring(Some(*host));
            }
            Event::Decided { number, action, .. } => self.decided(at, *number, action, event),
            Event::Swapped { host, version } => self.swapped(at, *host, *version),
            Event::Checked { host } => self.checked(at, *host),
            Event::RolledBack { host, is_done } => self.rolled_back(at, *host, *is_done),
            Event::Woken { host } => self.woken(at, *host),
            Event::Paused { host } => self.paused(at, *host),
            Event::Resumed { host } => self.resumed(*host),
            Event::Rated { host, rate } => {
                self.host(*host).rate = rate.map(|rate| (at, rate, 0));
            }
            Event::Narrowed { host, most } => {
                self.host(*host).most = Some((at, *most));
            }
            Event::Found { number } => self.found(at, *number),
        }
    }

    fn excuse_all(&mut self) {
        self.need_not_bring(None);
        for known in self.messages.values_mut() {
            known.excused = true;
            known.wake = None;
        }
    }

    /// A host ends: what it had in hand is nobody's.
    fn excuse(&mut self, host: u64) {
        self.need_not_bring(Some(host));
        for known in self.messages.values_mut() {
            known.excused |= known
                .due
                .is_some_and(|due| due.by == host && due.kept.is_none());
            known.excused |= known.under_way.contains(&host);
            known.interrupted |= known.under_way.contains(&host);
            known.duplicated |= known.in_queue > 1;
            known.under_way.retain(|it| *it != host);
            known.wake = None;
        }
    }

    fn received(&mut self, at: Duration, host: u64, number: u32, count: u32) {
        let visibility = Duration::from_secs(self.plan.visibility.into());
        let known = self.known(number);
        let is_held = !known.under_way.is_empty();
        let is_others = known.copied_by != Some(host);
        known.duplicated |= known.is_left && known.in_queue > 1 && is_others;
        // Its sender does not know yet that it has sent it.
        known.uncounted |= known.copied_by == Some(host) && at <= known.copied + SLACK;
        let may = known.may(at);
        known.receives += 1;
        if let Some(pending) = known.pending.replace(host) {
            known.idle.insert(pending);
        }
        known.holder = host;
        known.count = count;
        known.visible = at + visibility;
        let was_woken = known.wake.take().is_some();
        // Two have it from now on.
        known.duplicated |= is_held;
        self.rule(Rule::KeptInvisible, may, !is_held, at, || {
            format!("message {number} can be received while it is attempted")
        });
        self.rule(Rule::Woken, !was_woken, true, at, String::new);
        self.no_longer_held(at, number);
        self.rated(at, host);
    }

    fn hidden(&mut self, at: Duration, number: u32, seconds: u32) {
        let known = self.known(number);
        known.visible = at + Duration::from_secs(seconds.into());
        let visible = known.visible;
        let was_woken = seconds <= 1 && known.wake.take().is_some();
        if let Some(due) = &mut known.due
            && visible + SLACK >= due.at
            && visible <= due.at + Duration::from_secs(2)
        {
            due.kept.get_or_insert(at);
        }
        self.rule(Rule::Woken, !was_woken, true, at, String::new);
    }

    fn copied(&mut self, at: Duration, host: u64, number: u32) {
        let (waits, retention, keys) = (self.plan.waits, self.plan.retention, self.plan.keys);
        // About what a host hides itself it need not ask.
        let are_many = self.host(host).in_flight + 100 >= backstop_settle::hold::HIGH;
        // The count of its envelope stays as wrong as this host's is now.
        let counts = self.counts(host, number);
        let known = self.known(number);
        // Its queue would drop it before it is due, or soon afterwards.
        let margin = (retention / 10).min(Duration::from_secs(15 * 60)) + Duration::from_secs(1);
        let is_dropped = known
            .due
            .is_some_and(|due| due.at + margin >= known.dropped);
        let may = match waits {
            Waits::Invisible => false,
            Waits::SentAgain => true,
            // Once it is sent again, it makes hop after hop.
            Waits::Auto => are_many || is_dropped || known.copies > 0,
        };
        known.copies += 1;
        known.in_queue += 1;
        known.copied_by = Some(host);
        known.copied = at;
        known.uncounted |= !counts;
        known.pending = None;
        known.idle.clear();
        known.dropped = at + retention;
        // What an envelope says that nobody verifies counts as long as its queue keeps it.
        known.excused |= !keys
            && known
                .due
                .is_some_and(|due| due.at + margin >= known.dropped);
        if let Some(due) = &mut known.due {
            due.kept.get_or_insert(at);
        }
        self.rule(Rule::CopiedWhereAnnounced, false, may, at, || {
            format!("message {number} is sent again")
        });
    }

    /// A request that failed may have concerned each message.
    fn faulty(&mut self, at: Duration, number: Option<u32>, operation: &str) {
        self.need_not_bring(None);
        let all = self.messages.iter_mut();
        for (_, known) in all.filter(|(of, _)| number.is_none_or(|it| it == **of)) {
            known.excused = true;
            known.wake = None;
            known.doubt = at + DOUBT;
            known.is_left |= known.in_queue > 1;
            known.letter_unsure |= operation == "SendMessageBatch" || number.is_none();
            // Not deleted after its letter, it may die once more.
            known.letter_unsure |= known.letters > 0;
            known.uncounted |= operation == "ReceiveMessage" && number.is_some();
        }
    }

    fn began(&mut self, at: Duration, host: u64, number: u32) {
        let group = |of: u32| {
            let planned = self.plan.messages.iter().find(|it| it.number == of);
            planned.map(|it| it.group)
        };
        let earlier = self.sent.iter().take_while(|it| **it != number);
        let now = at;
        let has_ended = |known: &Known| known.gone || known.dropped <= now;
        let blocking: Vec<_> = earlier
            .filter(|it| group(**it) == group(number) && !has_ended(&self.messages[it]))
            .copied()
            .collect();
        let fifo = self.plan.fifo;
        let known = self.known(number);
        let excused = known.may(at);
        let due = known.due;
        let twice = !known.under_way.is_empty();
        // Another copy of it is another message.
        let are_copies = known.copies > 0 || known.sent_back > 0;
        let was_sent_again = known.copied_by.is_some();
        let is_again = known.under_way.contains(&host);
        let is_after = known.deleted_by == Some(host) && !known.redelivered;
        known.attempts += 1;
        known.pending = None;
        known.attempted_by.insert(host);
        known.under_way.push(host);
        known.due = None;
        self.rule(Rule::OnceAtATime, excused, !twice, at, || {
            format!("message {number} is attempted twice at once")
        });
        let holds = !is_again && !is_after;
        self.rule(Rule::OnceByOneHost, are_copies, holds, at, || {
            format!(
                "host {host} attempts message {number} twice at once, or after it has deleted it"
            )
        });
        self.rule(Rule::InOrder, !fifo, blocking.is_empty(), at, || {
            format!("message {number} is attempted before {blocking:?} of its group have ended")
        });
        let slack = if was_sent_again { EARLY } else { SLACK };
        let is_early = due.is_some_and(|due| at + slack < due.at);
        self.rule(
            Rule::NotEarly,
            excused || due.is_none(),
            !is_early,
            at,
            || format!("message {number} is attempted before it is due"),
        );
    }
}
