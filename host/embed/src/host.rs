//! A host with workers of the program, from its start to its end.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;

use backstop::{Backstop, CancellationToken, ConfigError, Handler, Summaries};
use backstop_core::lock::lock;
use backstop_core::text::chain;
use backstop_host::trial::{Trial, Tried};
use tokio::runtime::Builder;

/// A queue's worker.
pub struct Worker {
    /// The queue's URL, or `local:NAME`.
    pub url: String,
    /// The keys of `backstop.toml`, with their texts.
    pub options: Vec<(String, Vec<String>)>,
    /// What a queue in memory is filled with.
    pub messages: Option<Vec<String>>,
    /// What makes the attempts.
    pub handler: Arc<dyn Handler>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.url).finish()
    }
}

/// A host. It has a runtime of its own, on threads that know nothing of the program: an interpreter that ends must not meet them.
#[derive(Debug)]
pub struct Host {
    backstop: Mutex<Option<Backstop>>,
    stop: CancellationToken,
    result: Arc<Mutex<Option<HostResult>>>,
    tried: Arc<Mutex<Option<Arc<Tried>>>>,
}

/// What each queue's messages came to, or why the host could not start.
pub type HostResult = Result<Arc<Summaries>, String>;

impl Host {
    /// Reads the options of all workers.
    ///
    /// # Errors
    ///
    /// One of them is not valid.
    pub fn new(workers: impl IntoIterator<Item = Worker>) -> Result<Self, ConfigError> {
        let mut backstop: Option<Backstop> = None;
        for worker in workers {
            let queue = match backstop.take() {
                None => Backstop::queue(worker.url),
                Some(before) => before.and_queue(worker.url),
            };
            let mut queue = queue.handle_with(worker.handler);
            for (name, texts) in worker.options {
                queue = match name.as_str() {
                    "name" => queue.named(texts.concat()),
                    name => queue.option(name, &texts)?,
                };
            }
            if let Some(messages) = worker.messages {
                queue = queue.messages(messages);
            }
            backstop = Some(queue);
        }
        Ok(Self {
            backstop: Mutex::new(backstop),
            stop: CancellationToken::new(),
            result: Arc::default(),
            tried: Arc::default(),
        })
    }

    /// Starts the host. `ended` is called once it has ended, on a thread of the host.
    ///
    /// # Errors
    ///
    /// It was started before, or the machine has no thread for it.
    pub fn start(&self, ended: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("backstop")
            .build()
            .map_err(|error| chain(&error))?;
        let run = move |backstop: Backstop, stop| {
            let summaries = runtime.block_on(backstop.run_until(stop));
            drop(runtime);
            summaries.map(Arc::new).map_err(|error| chain(&error))
        };
        self.run(run, ended)
    }

    /// As [`start`](Self::start), in virtual time: what has happened is [`tried`](Self::tried) then.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start).
    pub fn try_out(
        &self,
        trial: Trial,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(), String> {
        let kept = Arc::clone(&self.tried);
        let run = move |backstop: Backstop, stop| {
            let tried = backstop.try_out(trial, stop);
            let tried = Arc::new(tried.map_err(|error| chain(&error))?);
            *lock(&kept) = Some(Arc::clone(&tried));
            Ok(Arc::new(tried.summaries.clone()))
        };
        self.run(run, ended)
    }

    /// Runs the host on a thread of its own.
    fn run(
        &self,
        run: impl FnOnce(Backstop, CancellationToken) -> HostResult + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(), String> {
        let Some(backstop) = lock(&self.backstop).take() else {
            return Err("a host starts once: make another worker".to_owned());
        };
        let (stop, result) = (self.stop.clone(), Arc::clone(&self.result));
        let running = thread::Builder::new()
            .name("backstop".to_owned())
            .spawn(move || {
                let ended_with = run(backstop, stop);
                *lock(&result) = Some(ended_with);
                ended();
            });
        running.map(drop).map_err(|error| chain(&error))
    }

    /// Stops it: what is under way is finished first.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// What became of it; none while it runs.
    pub fn result(&self) -> Option<HostResult> {
        lock(&self.result).clone()
    }

    /// What has happened in virtual time, once it has ended.
    pub fn tried(&self) -> Option<Arc<Tried>> {
        lock(&self.tried).clone()
    }
}
