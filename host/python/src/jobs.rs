//! Attempts that wait for Python, and who takes them: threads that wait ([`Jobs::take`]), or an event loop that is woken by a descriptor ([`Jobs::take_now`]).
//!
//! Few threads are best for handlers that compute, since they share the interpreter's lock, and many for handlers that wait. So a thread is woken if none works, or if those that work have taken nothing for a while ([`STALLED`]). If it gets the lock at once, they wait for something, and it takes a job. If not, they compute, and it only takes one if that lasts ([`COMPUTES`]).

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstop::{Error, Handler};
use backstop_core::clock;
use backstop_core::lock::{lock, unpoisoned};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;

use crate::failure::Described;
use crate::message::Message;

/// A message that Python has not taken after this time is handed back.
const LONGEST_UNTAKEN: Duration = Duration::from_secs(5);

/// After this time without a job that was taken, one more thread takes jobs.
const STALLED: Duration = Duration::from_micros(500);

/// A thread that waits this long for the interpreter's lock waits for one that computes.
const CONTENDED: Duration = Duration::from_millis(1);

/// After this time without a job that was taken, one more thread takes jobs also if others compute.
const COMPUTES: Duration = Duration::from_millis(50);

/// The jobs of one worker. The host's handler puts them in, Python takes them out.
#[pyclass(frozen, module = "backstop")]
#[derive(Debug, Clone)]
pub(crate) struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something changed for the threads that wait.
    changed: Condvar,
    /// Readable while there are jobs for an event loop.
    event: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Queued>,
    /// Threads without a job: they wait for one.
    idle: usize,
    /// Threads that have a job.
    working: usize,
    /// One of the idle threads looks whether those that work are stalled.
    is_watched: bool,
    /// How often jobs were taken, and when last.
    taken: u64,
    last_taken: Option<Instant>,
    /// The next job's number.
    next: u64,
    /// Jobs of an event loop whose attempts have ended from outside.
    over: Vec<u64>,
    is_closed: bool,
}

/// Where an attempt reports its end.
type Answer = oneshot::Sender<Result<(), Error>>;

#[derive(Debug)]
struct Queued {
    number: u64,
    message: Arc<backstop::Message>,
    answer: Answer,
    /// Set once nobody waits for the answer.
    is_over: Arc<AtomicBool>,
}

/// One attempt, which Python has taken.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Job {
    /// Its number among the jobs of its worker.
    #[pyo3(get)]
    number: u64,
    message: Py<Message>,
    answer: Mutex<Option<Answer>>,
    is_over: Arc<AtomicBool>,
}

#[pymethods]
impl Jobs {
    /// Jobs for threads, or for an event loop that reads their descriptor.
    #[new]
    fn new(for_event_loop: bool) -> PyResult<Self> {
        let event = for_event_loop
            .then(|| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
            .transpose()
            .map_err(std::io::Error::from)?;
        Ok(Self(Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            event,
        })))
    }

    /// Waits for jobs, and takes up to `most`. None once there will be no more. `has_worked` says that the thread comes from a job.
    fn take(&self, py: Python<'_>, most: usize, has_worked: bool) -> PyResult<Vec<Job>> {
        let mut state = self.0.lock();
        if has_worked {
            state.working -= 1;
        }
        // A new thread is a spare one: it waits like the others.
        let goes_on = has_worked || state.working == 0;
        let mut taken = if goes_on {
            state.take(most)
        } else {
            Vec::new()
        };
        let is_idle = taken.is_empty();
        state.idle += usize::from(is_idle);
        drop(state);
        while taken.is_empty() {
            let Some(woken) = py.detach(|| self.0.wait()) else {
                break;
            };
            taken = self.0.take_after(&woken, most);
        }
        self.0.lock().idle -= usize::from(is_idle);
        taken.into_iter().map(|it| Job::new(py, it)).collect()
    }

    /// Whether one more thread is needed: no other one waits for what comes next.
    fn wants_thread(&self) -> bool {
        let state = self.0.lock();
        state.idle == 0 && !state.is_closed
    }

    /// Takes up to `most` jobs that are there.
    fn take_now(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Job>> {
        let queued = {
            let mut state = self.0.lock();
            let taken = state.take(most);
            if state.waiting.is_empty()
                && state.over.is_empty()
                && let Some(event) = &self.0.event
            {
                // Nothing to read is fine: the descriptor says no more than whether there are jobs.
                let _ = rustix::io::read(event, &mut [0_u8; 8]);
            }
            taken
        };
        queued.into_iter().map(|it| Job::new(py, it)).collect()
    }

    /// The numbers of the jobs whose attempts have ended from outside since the last call: nobody waits for them.
    fn take_over(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().over)
    }

    /// The descriptor for an event loop.
    fn fileno(&self) -> i32 {
        self.0
            .event
            .as_ref()
            .map_or(-1, |event| event.as_fd().as_raw_fd())
    }

    /// No more jobs: threads that wait end.
    fn close(&self) {
        self.end();
    }
}

impl Jobs {
    /// The host has ended.
    pub(crate) fn end(&self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl State {
    fn take(&mut self, most: usize) -> Vec<Queued> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(queued) = self.waiting.pop_front()
        {
            // Its attempt ended while it waited: there is nobody to answer.
            if !queued.is_over.load(Ordering::Acquire) {
                taken.push(queued);
            }
        }
        if !taken.is_empty() {
            self.taken += 1;
            self.last_taken = Some(clock::instant());
            self.working += 1;
        }
        taken
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Puts a job in, and wakes who has to know.
    fn put(
        &self,
        message: Arc<backstop::Message>,
        answer: Answer,
        is_over: &Arc<AtomicBool>,
    ) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        state.waiting.push_back(Queued {
            number,
            message,
            answer,
            is_over: Arc::clone(is_over),
        });
        let is_first = state.waiting.len() == 1;
        let wakes = state.idle > 0 && !state.is_watched;
        state.is_watched |= wakes;
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
        if is_first {
            self.wake_loop();
        }
        number
    }

    /// Takes a job out again that Python has not taken. Whether it was there.
    fn withdraw(&self, number: u64) -> bool {
        let waiting = &mut self.lock().waiting;
        let found = waiting.iter().position(|it| it.number == number);
        found.is_some_and(|place| waiting.remove(place).is_some())
    }

    /// Ends once Python has not taken a job in time: it has not seen the message.
    async fn nobody_takes(&self, number: u64) {
        tokio::time::sleep(LONGEST_UNTAKEN).await;
        if !self.withdraw(number) {
            std::future::pending::<()>().await;
        }
    }

    /// Makes the descriptor readable, if there is one.
    fn wake_loop(&self) {
        if let Some(event) = &self.event {
            // Only a counter that is full can't be written, and then it is readable.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until there may be a job for this thread; `None` once there will be no more.
    fn wait(&self) -> Option<Woken> {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() {
                if state.is_closed {
                    return None;
                }
                state.is_watched = false;
                state = unpoisoned(self.changed.wait(state));
                continue;
            }
            let taken = state.taken;
            if state.working > 0 {
                // It watches, also when others are woken meanwhile.
                state.is_watched = true;
                (state, _) = unpoisoned(self.changed.wait_timeout(state, STALLED));
                if state.taken != taken && state.working > 0 {
                    continue;
                }
            }
            return Some(Woken {
                at: clock::instant(),
                taken,
            });
        }
    }

    /// Takes jobs for a thread that has the interpreter's lock now, unless those that work go on without it.
    fn take_after(&self, woken: &Woken, most: usize) -> Vec<Queued> {
        let mut state = self.lock();
        if state.working > 0 {
            let now = clock::instant();
            let since = state.last_taken.unwrap_or(woken.at);
            let computes = now.duration_since(woken.at) >= CONTENDED;
            if state.taken != woken.taken || computes && now.duration_since(since) < COMPUTES {
                return Vec::new();
            }
        }
        let taken = state.take(most);
        if !taken.is_empty() {
            // Another one watches what is left.
            state.is_watched = !state.waiting.is_empty() && state.idle > 1;
            if state.is_watched {
                self.changed.notify_one();
            }
        }
        taken
    }
}

/// A thread that was woken.
struct Woken {
    at: Instant,
    /// How often jobs had been taken.
    taken: u64,
}

#[pymethods]
impl Job {
    #[getter]
    fn message(&self, py: Python<'_>) -> Py<Message> {
        self.message.clone_ref(py)
    }

    /// Whether nobody waits for its end: the attempt has taken too long.
    #[getter]
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The work is done.
    fn done(&self) {
        self.answer(Ok(()));
    }

    /// The work has failed, as this describes.
    fn failed(&self, failure: Described) {
        self.answer(Err(failure.into_error()));
    }
}

impl Job {
    fn new(py: Python<'_>, queued: Queued) -> PyResult<Self> {
        Ok(Self {
            number: queued.number,
            message: Py::new(py, Message(queued.message))?,
            answer: Mutex::new(Some(queued.answer)),
            is_over: queued.is_over,
        })
    }

    fn answer(&self, outcome: Result<(), Error>) {
        if let Some(answer) = lock(&self.answer).take() {
            // The attempt may have ended before.
            let _ = answer.send(outcome);
        }
    }
}

/// The code of a message that Python has not taken: no attempt.
const BUSY: &str = "WorkerBusy";

const BUSY_TEXT: &str =
    "no thread or event loop of the worker has taken the message for 5 s: is it blocked?";

/// The code of an attempt that Python has dropped without an answer: its thread or its event loop ended.
const DROPPED: &str = "WorkerEnded";

/// The handler of a worker in Python.
#[derive(Debug)]
pub(crate) struct PythonHandler(pub(crate) Jobs);

/// An attempt that somebody waits for. Python learns it if the attempt ends from outside.
struct Waiting<'a> {
    shared: &'a Shared,
    number: u64,
    is_over: Arc<AtomicBool>,
    has_ended: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.is_over.store(true, Ordering::Release);
        if self.shared.withdraw(self.number) {
            return;
        }
        if self.shared.event.is_some() {
            self.shared.lock().over.push(self.number);
            self.shared.wake_loop();
        }
    }
}

#[async_trait]
impl Handler for PythonHandler {
    async fn handle(&self, message: &backstop::Message) -> Result<(), Error> {
        self.handle_shared(Arc::new(message.clone())).await
    }

    async fn handle_shared(&self, message: Arc<backstop::Message>) -> Result<(), Error> {
        let (answer, ended) = oneshot::channel();
        let shared = &*self.0.0;
        let is_over = Arc::<AtomicBool>::default();
        let mut waiting = Waiting {
            number: shared.put(message, answer, &is_over),
            shared,
            is_over,
            has_ended: false,
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended,
            () = shared.nobody_takes(waiting.number) => return Err(Error::unavailable(BUSY, BUSY_TEXT)),
        };
        waiting.has_ended = true;
        let dropped = || Error::new(DROPPED, "the worker ended without an answer");
        ended.unwrap_or_else(|_| Err(dropped()))
    }

    fn has_ended(&self, error: &Error) -> bool {
        error.code == DROPPED
    }
}
