//! The jobs of a worker, for Python: threads wait for them ([`Jobs::take`]), or an event loop is woken by a descriptor ([`Jobs::take_now`]).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use backstop_embed::jobs::{self, Taker};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use crate::failure::Described;
use crate::message::Message;
use crate::threads::Threads;

/// The jobs of one worker, and who takes them.
pub(crate) type Shared = jobs::Jobs<PythonTaker>;

/// Who takes jobs in Python.
#[derive(Debug)]
pub(crate) enum PythonTaker {
    Threads(Threads),
    /// Readable while there are jobs for an event loop.
    EventLoop(OwnedFd),
}

/// The jobs of one worker. The host's handler puts them in, Python takes them out.
#[pyclass(frozen, module = "backstop")]
#[derive(Debug, Clone)]
pub(crate) struct Jobs(pub(crate) Arc<Shared>);

/// One attempt, which Python has taken.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Job {
    job: jobs::Job,
    message: Py<Message>,
}

#[pymethods]
impl Jobs {
    /// Jobs for threads, or for an event loop that reads their descriptor.
    #[new]
    fn new(for_event_loop: bool) -> PyResult<Self> {
        let taker = if for_event_loop {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            PythonTaker::EventLoop(event.map_err(std::io::Error::from)?)
        } else {
            PythonTaker::Threads(Threads::default())
        };
        Ok(Self(Arc::new(jobs::Jobs::new(taker))))
    }

    /// Waits for jobs, and takes up to `most`. None once there will be no more. `has_worked` says that the thread comes from a job.
    fn take(&self, py: Python<'_>, most: usize, has_worked: bool) -> PyResult<Vec<Job>> {
        let PythonTaker::Threads(threads) = self.0.taker() else {
            return self.take_now(py, most);
        };
        let mut taken = threads.take_now(&self.0, most, has_worked);
        if taken.is_empty() {
            while taken.is_empty() {
                let Some(woken) = py.detach(|| threads.wait(&self.0)) else {
                    break;
                };
                taken = threads.take_after(&self.0, &woken, most);
            }
            threads.leave();
        }
        taken.into_iter().map(|it| Job::new(py, it)).collect()
    }

    /// Whether one more thread is needed: no other one waits for what comes next.
    fn wants_thread(&self) -> bool {
        matches!(self.0.taker(), PythonTaker::Threads(threads) if threads.wants_one())
    }

    /// Takes up to `most` jobs that are there.
    fn take_now(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Job>> {
        let taken = self.0.take(most);
        if let PythonTaker::EventLoop(event) = self.0.taker() {
            self.0.if_nothing(|| {
                // Nothing to read is fine: the descriptor says no more than whether there are jobs.
                let _ = rustix::io::read(event, &mut [0_u8; 8]);
            });
        }
        taken.into_iter().map(|it| Job::new(py, it)).collect()
    }

    /// The numbers of the jobs whose attempts have ended from outside since the last call: nobody waits for them.
    fn take_over(&self) -> Vec<u64> {
        self.0.take_over()
    }

    /// The descriptor for an event loop.
    fn fileno(&self) -> i32 {
        match self.0.taker() {
            PythonTaker::Threads(_) => -1,
            PythonTaker::EventLoop(event) => event.as_fd().as_raw_fd(),
        }
    }

    /// No more jobs: threads that wait end.
    fn close(&self) {
        self.0.taker().end();
    }
}

impl Taker for PythonTaker {
    fn cancels(&self) -> bool {
        matches!(self, Self::EventLoop(_))
    }

    fn wake(&self, is_first: bool) {
        match self {
            Self::Threads(threads) => threads.wake(),
            Self::EventLoop(event) if is_first => {
                // Only a counter that is full can't be written, and then it is readable.
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
            Self::EventLoop(_) => {}
        }
    }

    fn end(&self) {
        if let Self::Threads(threads) = self {
            threads.end();
        }
    }
}

#[pymethods]
impl Job {
    /// Its number among the jobs of its worker.
    #[getter]
    fn number(&self) -> u64 {
        self.job.number
    }

    #[getter]
    fn message(&self, py: Python<'_>) -> Py<Message> {
        self.message.clone_ref(py)
    }

    /// Whether nobody waits for its end: the attempt has taken too long.
    #[getter]
    fn is_over(&self) -> bool {
        self.job.is_over()
    }

    /// The work is done.
    fn done(&self) {
        self.job.answer(Ok(()));
    }

    /// The work has failed, as this describes.
    fn failed(&self, failure: Described) {
        self.job.answer(Err(failure.into_error()));
    }
}

impl Job {
    fn new(py: Python<'_>, job: jobs::Job) -> PyResult<Self> {
        let message = Py::new(py, Message(Arc::clone(&job.message)))?;
        Ok(Self { job, message })
    }
}
