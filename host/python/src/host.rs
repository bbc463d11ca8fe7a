//! A host with workers in Python, from its start to its end.

use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use backstop::{Backstop, CancellationToken, ConfigError, Summaries};
use backstop_core::lock::lock;
use backstop_engine::Compiler;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
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

/// A host. It has a runtime of its own, on threads that know nothing of Python.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Host {
    backstop: Mutex<Option<Backstop>>,
    stop: CancellationToken,
    jobs: Vec<Jobs>,
    ended: Mutex<Option<Result<Summaries, String>>>,
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
            let mut queue = queue.handle_with(std::sync::Arc::new(PythonHandler(jobs.clone())));
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
        Ok(Self {
            backstop: Mutex::new(backstop),
            stop: CancellationToken::new(),
            jobs: all,
            ended: Mutex::default(),
        })
    }

    /// Starts the host. `ended` is called, on a thread of the host, when it has ended: then there is a [`result`](Self::result).
    fn start(slf: Py<Self>, py: Python<'_>, ended: Py<PyAny>) -> PyResult<()> {
        let this = slf.get();
        let Some(backstop) = lock(&this.backstop).take() else {
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
        let stop = this.stop.clone();
        let host = slf.clone_ref(py);
        let running = thread::Builder::new()
            .name("backstop".to_owned())
            .spawn(move || {
                let result = runtime.block_on(backstop.run_until(stop));
                drop(runtime);
                let result = result.map_err(|error| text(&error));
                Python::attach(|py| {
                    let this = host.get();
                    *lock(&this.ended) = Some(result);
                    this.jobs.iter().for_each(Jobs::end);
                    if let Err(error) = ended.call0(py) {
                        error.write_unraisable(py, None);
                    }
                    drop(host);
                });
            });
        running
            .map(drop)
            .map_err(|error| PyRuntimeError::new_err(text(&error)))
    }

    /// Stops it: what is under way is finished first.
    fn stop(&self) {
        self.stop.cancel();
    }

    /// What each queue's messages came to, by the queue's name: succeeded, retried, dead-lettered. Raises why the host could not start.
    fn result(&self) -> PyResult<Vec<(String, u64, u64, u64)>> {
        match &*lock(&self.ended) {
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
