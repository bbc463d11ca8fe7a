//! A host with workers in Python, from its start to its end.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use backstop::{Backstop, CancellationToken, ConfigError, Summaries};
use backstop_core::lock::lock;
use backstop_engine::Compiler;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::Builder;

use crate::jobs::{Jobs, PythonHandler};
use crate::text;

/// What a queue's worker is: its URL, its options with their texts, and who takes its jobs.
#[derive(FromPyObject)]
struct Worker {
    url: String,
    options: Vec<(String, Vec<String>)>,
    jobs: Py<Jobs>,
    messages: Option<Vec<String>>,
}

/// A host. It has a runtime of its own, on threads that know nothing of Python: an interpreter that ends must not meet them.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Host {
    backstop: Mutex<Option<Backstop>>,
    stop: CancellationToken,
    shared: Arc<Shared>,
}

/// What the host's thread leaves.
struct Shared {
    jobs: Vec<Jobs>,
    result: Mutex<Option<Result<Summaries, String>>>,
    /// Readable once there is a result.
    ended: OwnedFd,
}

#[pymethods]
impl Host {
    /// Reads the options of all workers.
    #[new]
    fn new(workers: Vec<Worker>) -> PyResult<Self> {
        let mut backstop: Option<Backstop> = None;
        let mut all = Vec::new();
        for worker in workers {
            let jobs = worker.jobs.get().clone();
            let queue = match backstop.take() {
                None => Backstop::queue(worker.url),
                Some(before) => before.and_queue(worker.url),
            };
            let mut queue = queue.handle_with(Arc::new(PythonHandler(jobs.clone())));
            for (name, texts) in worker.options {
                queue = match name.as_str() {
                    "name" => queue.named(texts.concat()),
                    name => queue
                        .option(name, &texts)
                        .map_err(|error| invalid(&error))?,
                };
            }
            if let Some(messages) = worker.messages {
                queue = queue.messages(messages);
            }
            all.push(jobs);
            backstop = Some(queue);
        }
        let ended = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)?;
        Ok(Self {
            backstop: Mutex::new(backstop),
            stop: CancellationToken::new(),
            shared: Arc::new(Shared {
                jobs: all,
                result: Mutex::default(),
                ended,
            }),
        })
    }

    /// Starts the host.
    fn start(&self) -> PyResult<()> {
        let Some(backstop) = lock(&self.backstop).take() else {
            return Err(PyRuntimeError::new_err(
                "a host starts once: make another worker",
            ));
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("backstop")
            .build()
            .map_err(|error| PyRuntimeError::new_err(text(&error)))?;
        let (stop, shared) = (self.stop.clone(), Arc::clone(&self.shared));
        let running = thread::Builder::new()
            .name("backstop".to_owned())
            .spawn(move || {
                let result = runtime.block_on(backstop.run_until(stop));
                drop(runtime);
                *lock(&shared.result) = Some(result.map_err(|error| text(&error)));
                shared.jobs.iter().for_each(Jobs::end);
                // It is not full: this is the only write.
                let _ = rustix::io::write(&shared.ended, &1_u64.to_ne_bytes());
            });
        running
            .map(drop)
            .map_err(|error| PyRuntimeError::new_err(text(&error)))
    }

    /// A descriptor that is readable once the host has ended: then there is a [`result`](Self::result).
    fn fileno(&self) -> i32 {
        self.shared.ended.as_fd().as_raw_fd()
    }

    /// Stops it: what is under way is finished first.
    fn stop(&self) {
        self.stop.cancel();
    }

    /// What each queue's messages came to, by the queue's name: succeeded, retried, dead-lettered. Raises why the host could not start.
    fn result(&self) -> PyResult<Vec<(String, u64, u64, u64)>> {
        match &*lock(&self.shared.result) {
            None => Err(PyRuntimeError::new_err("the host runs")),
            Some(Err(why)) => Err(PyValueError::new_err(why.clone())),
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
    Compiler::by_program(program);
}

fn invalid(error: &ConfigError) -> PyErr {
    PyValueError::new_err(text(error))
}
