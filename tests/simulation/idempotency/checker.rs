//! What must hold in every history of idempotent work, seen from outside alone.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_idempotency::LeaseEnd;

use super::history::{Event, History, Outcome, Row};
use super::known::{Call, Key};
use super::plan::{HOSTS, Kind, Plan};
use crate::determinism::BEGIN;

/// More than latency between two events that follow from each other.
const SLACK: Duration = Duration::from_millis(300);

/// How much a call may be longer because requests went wrong: its claim, its release, and the end of the work, which is written for a minute.
const DOUBT: Duration = Duration::from_secs(80);

/// The end of the year 9999, in seconds since 1970.
const NEVER: u64 = 253_402_300_799;

/// Checks a history. Each text is something that must not be.
pub(crate) fn check(plan: &Plan, history: &History) -> Vec<String> {
    let mut checker = Checker {
        plan,
        wrong: history.unended.clone(),
        calls: BTreeMap::new(),
        keys: BTreeMap::new(),
        clocks: [false; HOSTS],
    };
    for (at, event) in &history.events {
        checker.see(*at, event);
    }
    for (number, call) in &checker.calls {
        if !call.returned && !call.killed {
            let key = call.key;
            checker
                .wrong
                .push(format!("call {number} of key {key} never ended"));
        }
    }
    checker.wrong
}

struct Checker<'a> {
    plan: &'a Plan,
    wrong: Vec<String>,
    calls: BTreeMap<u32, Call>,
    keys: BTreeMap<u32, Key>,
    /// Whether the clock of a host is set wrong.
    clocks: [bool; HOSTS],
}

fn true_time(at: Duration) -> u64 {
    u64::try_from((BEGIN + at).as_millis()).unwrap()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

impl Checker<'_> {
    fn call(&mut self, number: u32) -> &mut Call {
        self.calls.get_mut(&number).unwrap()
    }

    fn key(&mut self, number: u32) -> &mut Key {
        self.keys.entry(number).or_default()
    }

    fn expect(&mut self, holds: bool, at: Duration, text: impl FnOnce() -> String) {
        if !holds {
            let at = at.as_secs_f64();
            self.wrong.push(format!("{at:.3}s: {}", text()));
        }
    }

    fn see(&mut self, at: Duration, event: &Event) {
        match event {
            Event::Called {
                call,
                key,
                host,
                now,
                deadline,
                wait,
                other_payload,
            } => {
                self.key(*key).payloads[usize::from(*other_payload)] = true;
                let called = Call {
                    key: *key,
                    host: *host,
                    began: at,
                    offset: now.cast_signed() - true_time(at).cast_signed(),
                    deadline: *deadline,
                    wait: *wait,
                    other_payload: *other_payload,
                    wrong_clock: self.clocks[*host],
                    clock: self.clocks[*host],
                    ..Call::default()
                };
                self.calls.insert(*call, called);
            }
            Event::Requested { call } => self.call(*call).requests += 1,
            Event::Faulty { call, .. } => self.call(*call).faulty = true,
            Event::Killed { host } => self.happens_to(*host, |call| call.killed = true),
            Event::Frozen { host } | Event::Thawed { host } => {
                self.happens_to(*host, |call| call.frozen = true);
            }
            Event::ClockSet { host, seconds } => {
                self.clocks[*host] = *seconds != 0;
                self.happens_to(*host, |call| call.clock = true);
            }
            Event::Stepped { call, key, step } => self.stepped(at, *call, *key, *step),
            Event::Worked {
                call,
                key,
                result,
                large,
            } => {
                self.key(*key).has_large |= large;
                let call = self.call(*call);
                (call.worked, call.ended) = (Some(result.clone()), at);
            }
            Event::Written {
                call,
                key,
                now,
                row,
            } => self.written(at, (*call, *key), *now, row.as_ref()),
            Event::Expired { key } => self.gone(at, *key),
            Event::Returned { call, key, outcome } => self.returned(at, *call, *key, outcome),
        }
    }

    fn happens_to(&mut self, host: usize, what: impl Fn(&mut Call)) {
        let open = self.calls.values_mut();
        open.filter(|it| it.host == host && !it.returned && !it.killed)
            .for_each(what);
    }

    /// The record that is there is not any more.
    fn gone(&mut self, at: Duration, key: u32) {
        let key = self.key(key);
        let writer = key.writer;
        let Some(row) = key.row.take() else { return };
        if row.is_in_progress() {
            key.in_progress = Some(at);
        } else {
            key.results.insert(row.data.unwrap_or_default(), at);
            self.call(writer).expired = true;
        }
    }

    fn written(&mut self, at: Duration, (call, key): (u32, u32), now: u64, row: Option<&Row>) {
        let before = self.key(key).row.clone();
        let writer = self.key(key).writer;
        let dead_letter = self.plan.dead_letter;
        let is_own = writer == call;
        let caller = &self.calls[&call];
        // The time of a call does not go back with the clock.
        let now = now.max(true_time(at).strict_add_signed(caller.offset));
        let is_claim = row.is_some_and(Row::is_in_progress);
        let problem = match &before {
            Some(before) if is_claim && !is_own => {
                let is_over = !before.is_in_progress() && before.expires * 1_000 < now;
                let is_left = before.is_in_progress() && before.lease < now && !dead_letter;
                (!is_over && !is_left).then_some("is taken from its owner")
            }
            Some(before) if is_claim && !before.is_in_progress() => Some("forgets that it is done"),
            Some(before) if row.is_some_and(|it| it.lease < before.lease) => {
                Some("has a shorter lease than before")
            }
            Some(_) if row.is_none() && !is_own => Some("is deleted by another"),
            Some(_) if row.is_none() => {
                let is_its = caller.worked == Some(None) || caller.started.is_none();
                (!is_its).then_some("is deleted, and its work did not fail")
            }
            None if !is_claim => Some("appears without a claim"),
            _ if !is_claim && !is_own => Some("is completed by another"),
            _ => None,
        };
        let lease = row.map_or(0, |row| row.lease);
        let after = milliseconds(self.plan.expires_after);
        let expires = row.map(|row| row.expires * 1_000);
        // From when the work ended, in whole seconds.
        let least = match row {
            Some(row) if row.is_in_progress() && dead_letter => NEVER * 1_000,
            Some(row) if row.is_in_progress() => row.lease + after - 1_000,
            _ => true_time(caller.ended).strict_add_signed(caller.offset) + after - 2_000,
        };
        let is_long = expires.is_none_or(|it| it >= least) || caller.clock;
        let is_robbed = is_claim && !is_own && caller.clock;
        let result = caller.worked.clone().flatten();
        let data = row.and_then(|it| it.data.clone());
        let is_result =
            is_claim || row.is_none_or(|it| it.status.ends_with("NOT_STORED")) || data == result;
        self.gone(at, key);
        if let Some(robbed) = self.calls.get_mut(&writer).filter(|_| is_robbed) {
            robbed.robbed = true;
        }
        let known = self.call(call);
        known.lease = lease.saturating_add_signed(-known.offset);
        known.recorded |= row.is_some() && !is_claim;
        let its = self.key(key);
        its.row = row.cloned();
        its.writer = call;
        if problem.is_none() && is_own {
            self.call(call).expired = false;
        }
        self.expect(problem.is_none(), at, || {
            format!(
                "the record of key {key} {} by call {call}",
                problem.unwrap()
            )
        });
        self.expect(is_long, at, || {
            format!(
                "the record of key {key} expires at {expires:?} ms, and {least} ms is the least"
            )
        });
        self.expect(is_result, at, || {
            format!("call {call} of key {key} records {data:?}, and its work returned {result:?}")
        });
    }

    fn stepped(&mut self, at: Duration, number: u32, key: u32, step: u32) {
        let now = true_time(at);
        let its = &self.keys[&key];
        let is_there = its.row.is_some() && its.writer == number;
        let call = &self.calls[&number];
        // A clock that is set back meanwhile does no harm, and one that is set forward ends the work.
        let others = call.wrong_clock || call.robbed;
        // The clocks of two hosts differ by less than a second.
        let is_nearly_over = now + 1_000 > call.lease;
        self.expect(now <= call.lease || call.wrong_clock, at, || {
            format!("call {number} does step {step} of key {key} without a lease")
        });
        let call = &self.calls[&number];
        let ends = call.deadline.map(|it| call.began + it);
        let is_late = ends.is_some_and(|end| at > end);
        self.expect(is_there || is_nearly_over || others, at, || {
            format!("call {number} does step {step} of key {key}, whose record another one has")
        });
        self.expect(!is_late, at, || {
            format!("call {number} does step {step} of key {key} after its deadline")
        });
        if step == 0 {
            self.started(at, number, key);
        }
    }

    /// Work begins: why is it not done already?
    fn started(&mut self, at: Duration, number: u32, key: u32) {
        let strict = self.plan.dead_letter;
        let clock = self.calls[&number].clock;
        let again = self.calls.iter().find(|(other, it)| {
            let is_over = it.worked == Some(None) || it.expired;
            let may_be = !strict && it.is_excused() || clock || it.clock;
            it.key == key && it.started.is_some() && **other != number && !is_over && !may_be
        });
        let again = again.map(|(other, _)| *other);
        self.call(number).started.get_or_insert(at);
        self.expect(again.is_none(), at, || {
            format!("call {number} does the work of key {key} again, after call {again:?}")
        });
    }

    fn returned(&mut self, at: Duration, number: u32, key: u32, outcome: &Outcome) {
        let its = &self.keys[&key];
        let call = &self.calls[&number];
        let since = |last: Option<Duration>| last.is_some_and(|it| it >= call.began);
        let row = its.row.as_ref();
        let was_in_progress = since(its.in_progress) || row.is_some_and(Row::is_in_progress);
        let is_excused = call.is_disturbed();
        let is_true = match outcome {
            Outcome::Completed {
                result,
                repeated: false,
                recorded,
            } => {
                let is_known = if *recorded {
                    call.recorded
                } else {
                    is_excused || call.deadline.is_some()
                };
                is_known && call.worked == Some(Some(result.clone()))
            }
            Outcome::Completed {
                result,
                repeated: true,
                ..
            } => {
                let is_there = row.is_some_and(|it| it.data.as_ref() == Some(result));
                let is_there = is_there || since(its.results.get(result).copied());
                let mut all = self.calls.values();
                is_there && all.any(|it| it.worked == Some(Some(result.clone())))
            }
            Outcome::Failed => {
                let is_there = its.writer == number && row.is_some_and(Row::is_in_progress);
                let may_be = is_excused || call.deadline.is_some();
                call.worked == Some(None) && (!is_there || may_be)
            }
            Outcome::InProgress => was_in_progress,
            Outcome::Unknown => was_in_progress && self.plan.dead_letter,
            Outcome::LeaseEnded(LeaseEnd::Deadline) => {
                let ends = call.deadline.map(|it| call.began + it);
                ends.is_some_and(|end| at + SLACK >= end) || call.clock
            }
            Outcome::LeaseEnded(_) => is_excused,
            Outcome::Store(_) => is_excused,
            Outcome::NotStored => its.has_large,
            Outcome::Mismatch => its.payloads[usize::from(!call.other_payload)],
            Outcome::Other(_) => false,
        };
        let is_lost = matches!(call.worked, Some(Some(_)))
            && !matches!(
                outcome,
                Outcome::Completed { .. } | Outcome::NotStored | Outcome::LeaseEnded(_)
            );
        let took = at - call.began;
        let most = self.longest(call);
        let requests = call.requests;
        let waits = call.wait.unwrap_or_default().as_secs();
        let renewals = if call.faulty {
            took.as_secs() * 3
        } else {
            took.as_secs()
        };
        let plenty = (40 + waits * 2 + renewals) * if self.plan.client_retries { 3 } else { 1 };
        self.call(number).returned = true;
        self.expect(is_true, at, || {
            format!("call {number} of key {key} ends with {outcome:?}, and it is not so")
        });
        self.expect(!is_lost, at, || {
            format!("call {number} of key {key} has done its work and ends with {outcome:?}")
        });
        self.expect(took <= most, at, || {
            format!("call {number} of key {key} took {took:?}, and {most:?} is the most")
        });
        self.expect(u64::from(requests) <= plenty, at, || {
            format!("call {number} of key {key} made {requests} requests, and {plenty} are plenty")
        });
    }

    /// How long a call may take.
    fn longest(&self, call: &Call) -> Duration {
        let all = self.plan.disturbances.iter();
        let frozen = all.filter(|it| it.kind == Kind::Freeze { host: call.host });
        let frozen = frozen.map(|it| it.lasts).sum::<Duration>();
        // Its work takes at most six steps of twelve seconds.
        let work = call
            .started
            .map_or(Duration::ZERO, |_| Duration::from_secs(72));
        let doubt = if call.faulty || call.frozen {
            DOUBT
        } else {
            Duration::from_secs(1)
        };
        let most = work + doubt + call.wait.unwrap_or_default();
        let deadline = call.deadline.map(|it| it + SLACK);
        deadline.map_or(most, |it| it.min(most)) + frozen
    }
}
