//! A host with workers in JavaScript, from its start to its end, and its jobs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::Error;
use backstop_core::lock::lock;
use backstop_core::text::chain;
use backstop_embed::host;
use backstop_embed::jobs::{Job, JobHandler, Jobs, Taker};
use napi::bindgen_prelude::Uint8Array;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Result, Status};
use napi_derive::napi;

use crate::message::Taken;
use crate::wake::{Wake, Waker};
use crate::{error, failure, number};

/// The lines so far are logged before the host's end is reported, if they are within this time.
const LONGEST_FLUSH: Duration = Duration::from_secs(1);

/// A function of JavaScript that is called once the host has ended.
type Ended = ThreadsafeFunction<(), (), (), Status, false>;

/// What a queue's worker is: its URL, its options with their texts, and what a queue in memory is filled with.
#[napi(object, object_to_js = false)]
pub struct WorkerOptions {
    pub url: String,
    pub options: Vec<WorkerOption>,
    pub messages: Option<Vec<String>>,
}

/// A key of a queue in `backstop.toml`.
#[napi(object, object_to_js = false)]
pub struct WorkerOption {
    pub name: String,
    pub texts: Vec<String>,
}

/// What a queue's messages came to.
#[napi(object, object_from_js = false)]
pub struct Counts {
    pub name: String,
    pub succeeded: f64,
    pub retried: f64,
    pub dead_lettered: f64,
}

/// A worker's jobs: those that wait, and those that JavaScript has taken.
struct Worker {
    jobs: Arc<Jobs<Waker>>,
    taken: Mutex<HashMap<u64, Job>>,
}

/// A host. It stops when it is dropped: the thread of JavaScript that had it has ended.
#[napi]
pub struct Host {
    host: host::Host,
    workers: Vec<Worker>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.host).finish()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.host.stop();
    }
}

#[napi]
impl Host {
    /// Reads the options of all workers.
    #[napi(constructor)]
    pub fn new(workers: Vec<WorkerOptions>) -> Result<Self> {
        let numbers = (0..).zip(&workers);
        let of_workers: Vec<Worker> = numbers.map(|(number, _)| Worker::new(number)).collect();
        let handlers = workers.into_iter().zip(&of_workers);
        let host = host::Host::new(handlers.map(|(it, worker)| {
            host::Worker {
                url: it.url,
                options: it
                    .options
                    .into_iter()
                    .map(|it| (it.name, it.texts))
                    .collect(),
                messages: it.messages,
                handler: Arc::new(JobHandler(Arc::clone(&worker.jobs))),
            }
        }));
        Ok(Self {
            host: host.map_err(|why| error(chain(&why)))?,
            workers: of_workers,
        })
    }

    /// Starts the host. `wake` is called with a worker's number when there are jobs, and `ended` once there will be no more.
    #[napi]
    pub fn start(&self, wake: Wake, ended: Ended) -> Result<()> {
        let wake = Arc::new(wake);
        let jobs: Vec<_> = self.workers.iter().map(|it| Arc::clone(&it.jobs)).collect();
        for it in &jobs {
            it.taker().start(Arc::clone(&wake));
        }
        let started = self.host.start({
            let jobs = jobs.clone();
            move || {
                jobs.iter().for_each(|it| it.taker().end());
                backstop_embed::log::flush(LONGEST_FLUSH);
                ended.call((), ThreadsafeFunctionCallMode::NonBlocking);
            }
        });
        if started.is_err() {
            jobs.iter().for_each(|it| it.taker().end());
        }
        started.map_err(error)
    }

    /// Stops it: what is under way is finished first.
    #[napi]
    pub fn stop(&self) {
        self.host.stop();
    }

    /// What each queue's messages came to; throws why the host could not start.
    #[napi]
    pub fn result(&self) -> Result<Vec<Counts>> {
        match self.host.result() {
            None => Err(error("the host runs")),
            Some(Err(why)) => Err(error(why)),
            Some(Ok(summaries)) => {
                let counts = summaries.0.iter().map(|(name, it)| Counts {
                    name: name.clone(),
                    succeeded: number(it.succeeded),
                    retried: number(it.retried),
                    dead_lettered: number(it.dead_lettered),
                });
                Ok(counts.collect())
            }
        }
    }

    /// Takes up to `most` jobs of a worker that are there.
    #[napi]
    pub fn take(&self, worker: u32, most: u32) -> Vec<Taken> {
        let Some(worker) = self.worker(worker) else {
            return Vec::new();
        };
        let jobs = worker.jobs.take(most as usize);
        let messages = jobs.iter().map(Taken::from).collect();
        lock(&worker.taken).extend(jobs.into_iter().map(|it| (it.number, it)));
        messages
    }

    /// The numbers of the jobs of a worker whose attempts have ended from outside since the last call: nobody waits for them.
    #[napi]
    pub fn take_over(&self, worker: u32) -> Vec<f64> {
        let Some(worker) = self.worker(worker) else {
            return Vec::new();
        };
        let over = worker.jobs.take_over();
        lock(&worker.taken).retain(|_, job| !job.is_over());
        over.into_iter().map(number).collect()
    }

    /// The work of a job is done.
    #[napi]
    pub fn done(&self, worker: u32, number: f64) {
        self.answer(worker, number, Ok(()));
    }

    /// The work of a job has failed: what JavaScript has found at the error, and the end of its stack.
    #[napi]
    pub fn failed(&self, worker: u32, number: f64, found: Uint8Array, stack: Option<String>) {
        self.answer(worker, number, Err(failure::read(&found, stack)));
    }

    /// The worker is not ready, and has not seen the message of a job.
    #[napi]
    pub fn unavailable(&self, worker: u32, number: f64, code: String, message: String) {
        self.answer(worker, number, Err(Error::unavailable(code, message)));
    }

    fn worker(&self, number: u32) -> Option<&Worker> {
        self.workers.get(number as usize)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number that JavaScript got from here; any other one names no job"
    )]
    fn answer(&self, worker: u32, number: f64, outcome: std::result::Result<(), Error>) {
        let job = self
            .worker(worker)
            .and_then(|it| lock(&it.taken).remove(&(number as u64)));
        // Without one, the attempt has ended before.
        if let Some(job) = job {
            job.answer(outcome);
        }
    }
}

impl Worker {
    fn new(number: u32) -> Self {
        Self {
            jobs: Arc::new(Jobs::new(Waker::new(number))),
            taken: Mutex::default(),
        }
    }
}
