//! Decisions whose record waits for what the shadow says. Bounded in number, in bytes and in time: whoever hands one over never waits, and no record waits for long.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::decision::Bounds;
use crate::failure::{Failure, Milliseconds};
use crate::policy::Payload;
use crate::record::{DecisionRecord, Observer};

/// How many decisions may wait.
const CASES: usize = 1_000;

/// What their messages' bodies and their records may hold on to, together, in bytes.
const BYTES: usize = 64 << 20;

/// For how long a decision may wait before the shadow is asked about it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A live decision, and all that it takes to put the same before the shadow.
pub(crate) struct Case {
    pub(super) record: DecisionRecord,
    pub(super) payload: Arc<Payload>,
    pub(super) bounds: Bounds,
    pub(super) room: Milliseconds,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    since: Instant,
}

/// What the shadow is asked.
pub(super) struct Question {
    pub(super) failure: Failure,
    pub(super) payload: Arc<Payload>,
    pub(super) bounds: Bounds,
    pub(super) room: Milliseconds,
}

impl Case {
    /// `observers` are told once the shadow has answered.
    pub(crate) fn new(
        record: DecisionRecord,
        payload: &Arc<Payload>,
        bounds: Bounds,
        room: Milliseconds,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        Self {
            record,
            payload: Arc::clone(payload),
            bounds,
            room,
            observers,
            since: clock::instant(),
        }
    }

    /// How much it holds on to.
    fn size(&self) -> usize {
        self.payload.size() + self.record.size()
    }

    fn question(&self) -> Question {
        Question {
            failure: self.record.failure.clone(),
            payload: Arc::clone(&self.payload),
            bounds: self.bounds,
            room: self.room,
        }
    }
}

/// What the shadow's thread does next.
pub(super) enum Next {
    /// Ask, and fetch the case with [`Waiting::answered`].
    Ask(Box<Question>),
    /// Give up on a case that has waited for too long.
    Late(Box<Case>),
}

/// What the shadow's thread is doing.
enum Worker {
    Idle,
    Asking(Box<Case>),
    Telling,
    Resting,
}

struct State {
    cases: VecDeque<Case>,
    bytes: usize,
    worker: Worker,
    is_closed: bool,
}

/// The line in front of a shadow.
pub(super) struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
}

impl Waiting {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a case at the end of the line, or gives it back where there is no room.
    pub(super) fn offer(&self, case: Case) -> Option<Case> {
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

    /// Waits for the next case; none when the line is closed.
    pub(super) fn next(&self) -> Option<Next> {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| !state.is_closed && state.cases.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        let case = state.cases.pop_front()?;
        state.bytes -= case.size();
        if case.since.elapsed() >= WAIT_TIMEOUT {
            state.worker = Worker::Telling;
            return Some(Next::Late(Box::new(case)));
        }
        let question = case.question();
        state.worker = Worker::Asking(Box::new(case));
        Some(Next::Ask(Box::new(question)))
    }

    /// The case that was asked about, to be told; none when nobody waits for the answer any more.
    pub(super) fn answered(&self) -> Option<Box<Case>> {
        let mut state = self.lock();
        match mem::replace(&mut state.worker, Worker::Idle) {
            Worker::Asking(case) => {
                state.worker = Worker::Telling;
                Some(case)
            }
            Worker::Idle | Worker::Telling | Worker::Resting => None,
        }
    }

    /// Rests for this long, or until the line is closed.
    pub(super) fn rest(&self, span: Duration) {
        let mut state = self.lock();
        if !span.is_zero() {
            state.worker = Worker::Resting;
            self.changed.notify_all();
            state = self
                .changed
                .wait_timeout_while(state, span, |state| !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.worker = Worker::Idle;
        self.changed.notify_all();
    }

    /// Lets the shadow answer for at most so long, and takes what is without an answer then.
    pub(super) fn take_all(&self, within: Duration) -> Vec<Case> {
        let is_busy = |state: &mut State| match state.worker {
            Worker::Idle => !state.cases.is_empty(),
            Worker::Asking(_) | Worker::Telling => true,
            Worker::Resting => false,
        };
        let mut state = self
            .changed
            .wait_timeout_while(self.lock(), within, is_busy)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        state.bytes = 0;
        let mut taken: Vec<Case> = state.cases.drain(..).collect();
        if let Worker::Asking(_) = state.worker
            && let Worker::Asking(case) = mem::replace(&mut state.worker, Worker::Idle)
        {
            taken.insert(0, *case);
        }
        taken
    }

    /// Takes no more, and ends the shadow's thread when it has its answer.
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
            decision: Decision {
                class: ErrorClass::Transient,
                action: Action::Retry {
                    delay: Milliseconds(1),
                },
                decided_by: DecidedBy::Policy,
            },
            log: Vec::new(),
            fuel: 0,
            took_us: 0,
            shadow: None,
        };
        let payload = Arc::new(Payload::new("x".repeat(bytes)));
        let room = Milliseconds(u32::MAX);
        Case::new(record, &payload, Bounds::default(), room, Vec::new())
    }

    #[test]
    fn a_line_takes_so_many_cases_and_so_many_bytes() {
        let waiting = Waiting::new();
        for _ in 0..CASES {
            assert!(waiting.offer(case(0)).is_none());
        }
        assert!(waiting.offer(case(0)).is_some());
        assert_eq!(waiting.take_all(Duration::ZERO).len(), CASES);
        let empty = case(0).size();
        assert!(waiting.offer(case(BYTES - empty)).is_none());
        assert!(waiting.offer(case(0)).is_some());
    }

    #[test]
    fn a_case_is_told_once_by_its_answer_or_by_the_end() {
        let waiting = Waiting::new();
        assert!(waiting.offer(case(0)).is_none());
        assert!(matches!(waiting.next(), Some(Next::Ask(_))));
        assert_eq!(waiting.take_all(Duration::ZERO).len(), 1);
        assert!(waiting.answered().is_none());
        assert!(waiting.offer(case(0)).is_none());
        assert!(matches!(waiting.next(), Some(Next::Ask(_))));
        assert!(waiting.answered().is_some());
        assert!(waiting.take_all(Duration::ZERO).is_empty());
    }

    #[test]
    fn a_case_that_waited_for_too_long_is_not_asked_about() {
        let waiting = Waiting::new();
        let mut late = case(0);
        late.since -= WAIT_TIMEOUT;
        assert!(waiting.offer(late).is_none());
        assert!(matches!(waiting.next(), Some(Next::Late(_))));
    }

    #[test]
    fn a_line_that_is_closed_takes_nothing_and_gives_what_it_has() {
        let waiting = Waiting::new();
        assert!(waiting.offer(case(0)).is_none());
        waiting.close();
        assert!(waiting.offer(case(0)).is_some());
        assert!(waiting.next().is_none());
        assert_eq!(waiting.take_all(Duration::ZERO).len(), 1);
    }
}
