//! A host with workers in Python, from its start to its end.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use backstop_embed::host;
use backstop_embed::jobs::{JobHandler, Taker};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use crate::jobs::{Jobs, Shared};
use crate::text;
use crate::trial::{Trial, Tried};

/// What a queue's worker is: its URL, its options with their texts, and who takes its jobs.
#[derive(FromPyObject)]
struct Worker {
    url: String,
    options: Vec<(String, Vec<String>)>,
    jobs: Py<Jobs>,
    messages: Option<Vec<String>>,
}

/// A host.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Host {
    host: host::Host,
    jobs: Vec<Arc<Shared>>,
    /// In virtual time, if there is one.
    trial: Option<Py<Trial>>,
    /// Readable once the host has ended.
    ended: Arc<OwnedFd>,
}

#[pymethods]
impl Host {
    /// Reads the options of all workers.
    #[new]
    #[pyo3(signature = (workers, trial = None))]
    fn new(workers: Vec<Worker>, trial: Option<Py<Trial>>) -> PyResult<Self> {
        let jobs: Vec<Arc<Shared>> = workers
            .iter()
            .map(|it| Arc::clone(&it.jobs.get().0))
            .collect();
        let workers = workers
            .into_iter()
            .zip(&jobs)
            .map(|(it, jobs)| host::Worker {
                url: it.url,
                options: it.options,
                messages: it.messages,
                handler: Arc::new(JobHandler(Arc::clone(jobs))),
            });
        let host = host::Host::new(workers).map_err(|error| PyValueError::new_err(text(&error)))?;
        let ended = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)?;
        Ok(Self {
            host,
            jobs,
            trial,
            ended: Arc::new(ended),
        })
    }

    /// Starts the host.
    fn start(&self) -> PyResult<()> {
        let (jobs, ended) = (self.jobs.clone(), Arc::clone(&self.ended));
        let ended = move || {
            jobs.iter().for_each(|it| it.taker().end());
            // It is not full: this is the only write.
            let _ = rustix::io::write(&*ended, &1_u64.to_ne_bytes());
        };
        let started = match &self.trial {
            None => self.host.start(ended),
            Some(trial) => self.host.try_out(trial.get().0.clone(), ended),
        };
        started.map_err(PyRuntimeError::new_err)
    }

    /// A descriptor that is readable once the host has ended: then there is a [`result`](Self::result).
    fn fileno(&self) -> i32 {
        self.ended.as_fd().as_raw_fd()
    }

    /// Stops it: what is under way is finished first.
    fn stop(&self) {
        self.host.stop();
    }

    /// What has happened in virtual time.
    fn tried(&self) -> PyResult<Tried> {
        let tried = self.host.tried().map(Tried);
        tried.ok_or_else(|| PyRuntimeError::new_err("nothing was tried out"))
    }

    /// What each queue's messages came to, by the queue's name: succeeded, retried, dead-lettered. Raises why the host could not start.
    fn result(&self) -> PyResult<Vec<(String, u64, u64, u64)>> {
        match self.host.result() {
            None => Err(PyRuntimeError::new_err("the host runs")),
            Some(Err(why)) => Err(PyValueError::new_err(why)),
            Some(Ok(summaries)) => Ok(summaries
                .0
                .iter()
                .map(|(name, it)| (name.clone(), it.succeeded, it.retried, it.dead_lettered))
                .collect()),
        }
    }
}

/// Has policies compiled in child processes of this program, which is the command of the same release.
#[pyfunction]
pub(crate) fn compile_by(program: PathBuf) {
    backstop_embed::compile_by(program);
}
