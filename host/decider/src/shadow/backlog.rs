//! Decisions that wait for the shadow's answer before they are recorded. Limited in number, bytes and time: adding one never blocks, and no record waits for long.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use backstop_core::lock::{lock, unpoisoned};

use crate::clock;
use crate::decision::{Bounds, Reach};
use crate::failure::Failure;
use crate::policy::Payload;
use crate::record::{DecisionRecord, Observer};

/// The most decisions that may wait.
const CASES: usize = 1_000;

/// The most memory that their message bodies and records may hold, in bytes.
const BYTES: usize = 64 << 20;

/// The longest that a decision may wait before the shadow is evaluated for it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A live decision, and everything that is needed to evaluate the shadow for the same failure.
pub(crate) struct Case {
    pub(super) record: DecisionRecord,
    pub(super) payload: Arc<Payload>,
    pub(super) bounds: Bounds,
    pub(super) reach: Reach,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    since: Instant,
}

/// The input of the shadow's evaluation.
pub(super) struct Input {
    pub(super) failure: Failure,
    pub(super) payload: Arc<Payload>,
    pub(super) bounds: Bounds,
    pub(super) reach: Reach,
}

impl Case {
    /// `observers` receive the record once the shadow has answered.
    pub(crate) fn new(
        record: DecisionRecord,
        payload: &Arc<Payload>,
        bounds: Bounds,
        reach: Reach,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        Self {
            record,
            payload: Arc::clone(payload),
            bounds,
            reach,
            observers,
            since: clock::instant(),
        }
    }

    /// Its approximate size in memory.
    fn size(&self) -> usize {
        self.payload.size() + self.record.size()
    }

    fn input(&self) -> Input {
        Input {
            failure: self.record.failure.clone(),
            payload: Arc::clone(&self.payload),
            bounds: self.bounds,
            reach: self.reach,
        }
    }
}

/// The next step of the shadow's thread.
pub(super) enum Next {
    /// Evaluate the shadow, then fetch the case with [`Backlog::evaluated`].
    Evaluate(Box<Input>),
    /// Skip a case that has waited for too long.
    Skip(Box<Case>),
}

/// The state of the shadow's thread.
enum Worker {
    Idle,
    Evaluating(Box<Case>),
    Reporting,
    Pausing,
}

struct State {
    cases: VecDeque<Case>,
    bytes: usize,
    worker: Worker,
    is_closed: bool,
}

/// The cases that wait for a shadow.
pub(super) struct Backlog {
    state: Mutex<State>,
    changed: Condvar,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                cases: VecDeque::new(),
                bytes: 0,
                worker: Worker::Idle,
                is_closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a case, or returns it if the backlog is full or closed.
    pub(super) fn push(&self, case: Case) -> Option<Case> {
        let mut state = self.lock();
        let bytes = state.bytes + case.size();
        if state.is_closed || state.cases.len() >= CASES || bytes > BYTES {
            return Some(case);
        }
        state.bytes = bytes;
        state.cases.push_back(case);
        self.changed.notify_all();
        None
    }

    /// Waits for the next case; `None` once the backlog is closed.
    pub(super) fn next(&self) -> Option<Next> {
        let state = self.lock();
        let is_idle = |state: &mut State| !state.is_closed && state.cases.is_empty();
        let mut state = unpoisoned(self.changed.wait_while(state, is_idle));
        if state.is_closed {
            return None;
        }
        let case = state.cases.pop_front()?;
        state.bytes -= case.size();
        if case.since.elapsed() >= WAIT_TIMEOUT {
            state.worker = Worker::Reporting;
            return Some(Next::Skip(Box::new(case)));
        }
        let input = case.input();
        state.worker = Worker::Evaluating(Box::new(case));
        Some(Next::Evaluate(Box::new(input)))
    }

    /// The case that was evaluated; `None` if [`Backlog::take_all`] has taken it.
    pub(super) fn evaluated(&self) -> Option<Box<Case>> {
        let mut state = self.lock();
        match mem::replace(&mut state.worker, Worker::Idle) {
            Worker::Evaluating(case) => {
                state.worker = Worker::Reporting;
                Some(case)
            }
            Worker::Idle | Worker::Reporting | Worker::Pausing => None,
        }
    }

    /// Ends the case under way, then pauses for this long or until the backlog is closed.
    pub(super) fn pause(&self, duration: Duration) {
        let mut state = self.lock();
        if !duration.is_zero() {
            state.worker = Worker::Pausing;
            self.changed.notify_all();
            let is_open = |state: &mut State| !state.is_closed;
            let waited = self.changed.wait_timeout_while(state, duration, is_open);
            state = unpoisoned(waited).0;
        }
        state.worker = Worker::Idle;
        self.changed.notify_all();
    }

    /// Waits until every case has its answer, for at most `timeout`, then takes the cases without one.
    pub(super) fn take_all(&self, timeout: Duration) -> Vec<Case> {
        let is_busy = |state: &mut State| match state.worker {
            Worker::Idle => !state.cases.is_empty(),
            Worker::Evaluating(_) | Worker::Reporting => true,
            Worker::Pausing => false,
        };
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, is_busy);
        let mut state = unpoisoned(waited).0;
        state.bytes = 0;
        let mut taken: Vec<Case> = state.cases.drain(..).collect();
        if let Worker::Evaluating(_) = state.worker
            && let Worker::Evaluating(case) = mem::replace(&mut state.worker, Worker::Idle)
        {
            taken.insert(0, *case);
        }
        taken
    }

    /// Accepts no more cases, and ends the shadow's thread after its current evaluation.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::decision::{Action, DecidedBy, Decision, ErrorClass};
    use crate::failure::Milliseconds;
    use crate::failure::{Error, Timestamp};

    fn case(bytes: usize) -> Case {
        let failure = Failure {
            message_id: "m".to_owned(),
            source: "local:q".to_owned(),
            attempt: NonZeroU32::MIN,
            age: Milliseconds(0),
            failed_at: Timestamp(0),
            previous_delay: None,
            error: Error::new("HTTP 503", ""),
            attributes: Vec::new(),
            random: 0.0,
        };
        let record = DecisionRecord {
            time: Timestamp(0),
            queue: "q".to_owned(),
            policy: Vec::new(),
            failure,
            payload: Default::default(),
            payload_left_out: 0,
            details_left_out: 0,
            others: Default::default(),
            decision: Decision {
                class: ErrorClass::Transient,
                action: Action::Retry {
                    delay: Milliseconds(1),
                },
                decided_by: DecidedBy::Policy,
                hold: Default::default(),
                down_for: None,
            },
            log: Vec::new(),
            fuel: 0,
            hops: 0,
            duplicate: false,
            took_us: 0,
            end: None,
            shadow: None,
        };
        let payload = Arc::new(Payload::new("x".repeat(bytes)));
        let reach = Reach::visibility(Milliseconds(u32::MAX), Milliseconds(0));
        Case::new(record, &payload, Bounds::default(), reach, Vec::new())
    }

    #[test]
    fn a_backlog_is_limited_in_cases_and_bytes() {
        let backlog = Backlog::new();
        for _ in 0..CASES {
            assert!(backlog.push(case(0)).is_none());
        }
        assert!(backlog.push(case(0)).is_some());
        assert_eq!(backlog.take_all(Duration::ZERO).len(), CASES);
        let empty = case(0).size();
        assert!(backlog.push(case(BYTES - empty)).is_none());
        assert!(backlog.push(case(0)).is_some());
    }

    #[test]
    fn a_case_is_reported_once() {
        let backlog = Backlog::new();
        assert!(backlog.push(case(0)).is_none());
        assert!(matches!(backlog.next(), Some(Next::Evaluate(_))));
        assert_eq!(backlog.take_all(Duration::ZERO).len(), 1);
        assert!(backlog.evaluated().is_none());
        assert!(backlog.push(case(0)).is_none());
        assert!(matches!(backlog.next(), Some(Next::Evaluate(_))));
        assert!(backlog.evaluated().is_some());
        assert!(backlog.take_all(Duration::ZERO).is_empty());
    }

    #[test]
    fn a_case_that_waited_for_too_long_is_skipped() {
        let backlog = Backlog::new();
        let mut late = case(0);
        late.since -= WAIT_TIMEOUT;
        assert!(backlog.push(late).is_none());
        assert!(matches!(backlog.next(), Some(Next::Skip(_))));
    }

    #[test]
    fn a_closed_backlog_accepts_nothing_and_returns_what_it_has() {
        let backlog = Backlog::new();
        assert!(backlog.push(case(0)).is_none());
        backlog.close();
        assert!(backlog.push(case(0)).is_some());
        assert!(backlog.next().is_none());
        assert_eq!(backlog.take_all(Duration::ZERO).len(), 1);
    }
}
