//! What must hold in every history of a retry handler, seen from outside alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::decision::Action;

use super::history::{Event, Failed, History, Response};
use super::plan::Plan;
use crate::plan::PERMANENT;

/// More than latency between two events that follow from each other.
const SLACK: Duration = Duration::from_millis(100);

/// How late an attempt may be where nothing disturbs.
const SOON: Duration = Duration::from_secs(60);

/// The record of a failed run, as far as it is known.
#[derive(Debug, Default)]
struct Record {
    /// When the run failed.
    failed: Duration,
    recorded: bool,
    due: Option<Duration>,
    decided: Option<Action>,
    reasons: BTreeSet<String>,
    /// How often Lambda has accepted the event again for it.
    accepted: u32,
    letters: u32,
    copies: u32,
    /// The invocations that have it in hand.
    in_hand: u32,
    /// A request about it went wrong, or it was delivered twice.
    doubt: bool,
}

impl Record {
    fn is_done(&self) -> bool {
        self.accepted > 0 || self.letters > 0 || self.copies > 0
    }
}

#[derive(Debug, Default)]
struct Known {
    runs: u32,
    succeeded: bool,
    letters: u32,
    /// There may be two of everything.
    doubt: bool,
}

/// Checks a history. Each text is something that must not be.
pub(crate) fn check(plan: &Plan, history: &History) -> Vec<String> {
    let mut checker = Checker {
        plan,
        wrong: history.unended.clone(),
        events: BTreeMap::new(),
        records: BTreeMap::new(),
        bases: BTreeMap::new(),
        codes: BTreeMap::new(),
        received: 0,
        fault: None,
    };
    for (at, event) in &history.events {
        checker.see(*at, event);
    }
    checker.end(history);
    checker.wrong
}

struct Checker<'a> {
    plan: &'a Plan,
    wrong: Vec<String>,
    events: BTreeMap<u32, Known>,
    records: BTreeMap<Failed, Record>,
    /// The first delay of each environment's version of the policy, in seconds.
    bases: BTreeMap<u64, u64>,
    /// How each run ended.
    codes: BTreeMap<u32, Option<&'static str>>,
    received: u64,
    /// When a request last went wrong.
    fault: Option<Duration>,
}

impl Checker<'_> {
    fn event(&mut self, number: u32) -> &mut Known {
        self.events.entry(number).or_default()
    }

    fn record(&mut self, of: Failed) -> &mut Record {
        self.records.entry(of).or_default()
    }

    fn expect(&mut self, holds: bool, at: Duration, text: impl FnOnce() -> String) {
        if !holds {
            let at = at.as_secs_f64();
            self.wrong.push(format!("{at:.3}s: {}", text()));
        }
    }

    /// From now on, there may be two of everything about this record.
    fn doubt(&mut self, of: Failed) {
        self.event(of.0).doubt = true;
        self.record(of).doubt = true;
    }

    fn see(&mut self, at: Duration, event: &Event) {
        match event {
            Event::Accepted { number, after } => {
                self.event(*number);
                if let Some(run) = after {
                    self.accepted(at, (*number, *run));
                }
            }
            Event::Ran { number, .. } => self.event(*number).runs += 1,
            Event::Ended { number, run, fails } => {
                self.event(*number).succeeded |= fails.is_none();
                self.codes.insert(*run, *fails);
            }
            Event::Recorded { of, at: failed } => {
                let record = self.record(*of);
                (record.recorded, record.failed) = (true, *failed);
            }
            Event::Received { of, .. } => {
                self.received += 1;
                if self.record(*of).in_hand > 0 {
                    self.doubt(*of);
                }
            }
            Event::Duplicated { of } => self.doubt(*of),
            Event::Started { env, base } => {
                self.bases.insert(*env, *base);
            }
            Event::Began { all, .. } => {
                for of in all {
                    self.record(*of).in_hand += 1;
                }
            }
            Event::Responded { all, response, .. } => {
                for of in all {
                    self.record(*of).in_hand -= 1;
                }
                self.responded(at, all, response);
            }
            Event::Killed { .. } | Event::Hidden { .. } => {}
            Event::Decided {
                env,
                of,
                attempt,
                action,
                by,
            } => {
                self.of_version(at, *env, *of, *attempt, action);
                self.decided(at, *of, *attempt, action, by);
            }
            Event::Copied { of } => self.record(*of).copies += 1,
            Event::Letter { of, reason } => self.letter(at, *of, reason.as_deref()),
            Event::Deleted { of, by_mapping } => {
                let is_done = self.record(*of).is_done();
                let by = if *by_mapping { "mapping" } else { "handler" };
                self.expect(is_done, at, || {
                    format!("the record of event {} is deleted by the {by}, and neither invoked nor dead", of.0)
                });
            }
            Event::Faulty { of: Some(of), .. } => self.doubt(*of),
            Event::Faulty { of: None, .. } => {
                self.fault = Some(at);
                let held = self.records.iter().filter(|(_, it)| it.in_hand > 0);
                for of in held.map(|(of, _)| *of).collect::<Vec<_>>() {
                    self.doubt(of);
                }
            }
        }
    }

    fn accepted(&mut self, at: Duration, of: Failed) {
        let number = of.0;
        let plan = self.plan;
        let is_quiet = plan.disturbances.is_empty() && plan.swaps.is_empty() && plan.knows_mapping;
        let record = self.record(of);
        let (twice, letters, due) = (record.accepted > 0, record.letters, record.due);
        let (recorded, doubt) = (record.recorded, record.doubt);
        record.accepted += 1;
        self.expect(recorded, at, || {
            format!("event {number} is invoked again, and has not failed")
        });
        self.expect(due.is_some(), at, || {
            format!("event {number} is invoked again, and nobody has decided so")
        });
        self.expect(due.is_none_or(|due| at + SLACK >= due), at, || {
            format!("event {number} is invoked before it is due")
        });
        self.expect(
            !is_quiet || due.is_none_or(|due| at <= due + SOON),
            at,
            || format!("event {number} is invoked long after it was due"),
        );
        self.expect(!twice || doubt, at, || {
            format!("event {number} is invoked twice for one failure, and no request was in doubt")
        });
        self.expect(letters == 0 || doubt, at, || {
            format!("event {number} is invoked, and dead")
        });
    }

    fn responded(&mut self, at: Duration, all: &[Failed], response: &Response) {
        let is_known = self.plan.knows_mapping;
        match response {
            Response::Named(named) => {
                for of in all {
                    let record = self.record(*of);
                    let (is_done, doubt) = (record.is_done(), record.doubt);
                    let is_named = named.contains(of);
                    self.expect(is_named || is_done, at, || {
                        format!(
                            "the response does not name event {}, which is not done",
                            of.0
                        )
                    });
                    // A copy waits in its place.
                    self.expect(!is_named || !is_done || doubt, at, || {
                        format!("the response names event {}, which is done", of.0)
                    });
                }
            }
            Response::Invalid(id) => self.expect(false, at, || {
                format!("the response names `{id}`, which is not of the batch")
            }),
            Response::Error(text) => {
                // A look-up of the mapping that failed counts for a minute.
                let since = self.fault.map(|fault| at.saturating_sub(fault));
                let may_be = since.is_some_and(|it| it < Duration::from_secs(130));
                self.expect(!is_known || may_be, at, || {
                    format!("the batch fails, and nothing was in doubt: {text}")
                });
                all.iter().for_each(|of| self.doubt(*of));
            }
            Response::TimedOut => {
                self.expect(false, at, || {
                    "the handler has no response at its function's timeout".to_owned()
                });
                all.iter().for_each(|of| self.doubt(*of));
            }
            Response::Lost => all.iter().for_each(|of| self.doubt(*of)),
        }
    }

    fn letter(&mut self, at: Duration, of: Failed, reason: Option<&str>) {
        self.event(of.0).letters += 1;
        let record = self.record(of);
        record.letters += 1;
        let (letters, doubt) = (record.letters, record.doubt);
        let is_decided = reason.is_some_and(|it| record.reasons.contains(it));
        self.expect(is_decided, at, || {
            format!(
                "event {} is dead for {reason:?}, and nobody has decided so",
                of.0
            )
        });
        self.expect(letters == 1 || doubt, at, || {
            format!(
                "event {} has {letters} letters, and no request was in doubt",
                of.0
            )
        });
    }

    /// The delay is one of the version that the environment started with.
    fn of_version(&mut self, at: Duration, env: u64, of: Failed, attempt: u32, action: &Action) {
        let Action::Retry { delay } = action else {
            return;
        };
        let base = Duration::from_secs(self.bases[&env]);
        let most = base * 2_u32.pow((attempt - 1).min(12));
        let delay = Duration::from_millis(delay.0.into());
        self.expect(delay <= most, at, || {
            format!(
                "event {} waits {delay:?} after attempt {attempt}, and a version that begins with {base:?} allows {most:?}",
                of.0
            )
        });
    }

    fn decided(&mut self, at: Duration, of: Failed, attempt: u32, action: &Action, by: &str) {
        let (number, most) = (of.0, self.plan.max_attempts);
        let code = self.codes.get(&of.1).copied().flatten();
        let (runs, doubt) = (self.event(number).runs, self.event(number).doubt);
        // Of two versions, each decides as it does.
        let may_differ = self.plan.resend || !self.plan.swaps.is_empty();
        let record = self.record(of);
        let before = record.decided.replace(action.clone());
        match action {
            Action::Retry { delay } => {
                let delay = Duration::from_millis(delay.0.into());
                record.due = Some(record.failed + delay);
                let may = attempt < most && code != Some(PERMANENT);
                self.expect(may, at, || {
                    format!(
                        "event {number} is retried after attempt {attempt} of {most}, with {code:?}"
                    )
                });
            }
            Action::DeadLetter { reason } => {
                record.reasons.insert(reason.clone());
                let may = attempt >= most || code == Some(PERMANENT);
                self.expect(may, at, || {
                    format!("event {number} is given up at attempt {attempt} of {most}: {reason}")
                });
            }
            Action::Discard { .. } => self.expect(false, at, || {
                format!("event {number} is discarded, which no policy asked for")
            }),
        }
        let is_same = before.as_ref().is_none_or(|it| it == action);
        self.expect(is_same || may_differ, at, || {
            format!("event {number} is decided otherwise: {action:?} after {before:?}")
        });
        self.expect(attempt >= 1 && attempt <= runs, at, || {
            format!("event {number} is at attempt {attempt}, and has run {runs} times")
        });
        self.expect(attempt == runs || doubt, at, || {
            format!("event {number} is at attempt {attempt}, and has run {runs} times, of which none was in doubt")
        });
        self.expect(by != "fallback", at, || {
            format!("the fallback decided about event {number}")
        });
    }

    fn end(&mut self, history: &History) {
        let end = history.events.last().map(|(at, _)| *at).unwrap_or_default();
        for planned in &self.plan.events {
            let number = planned.number;
            let known = self.event(number);
            let (succeeded, letters, doubt) = (known.succeeded, known.letters, known.doubt);
            self.expect(succeeded || letters > 0, end, || {
                format!("event {number} is lost: it is neither done nor dead")
            });
            self.expect(!(succeeded && letters > 0) || doubt, end, || {
                format!("event {number} is done and dead")
            });
        }
        let most = 300 + self.received * 40;
        self.expect(history.requests <= most, end, || {
            format!("{} requests, and {most} are plenty", history.requests)
        });
    }
}
