//! Attempts that wait for the program: the host's handler puts them in, the program takes them out and reports how they have ended.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use backstop::{Error, Handler, Message};
use backstop_core::lock::lock;
use tokio::sync::oneshot;

/// A message that the program has not taken after this time is handed back.
const LONGEST_UNTAKEN: Duration = Duration::from_secs(5);

/// The code of a message that the program has not taken: no attempt.
const BUSY: &str = "WorkerBusy";

const BUSY_TEXT: &str =
    "no thread or event loop of the worker has taken the message for 5 s: is it blocked?";

/// The code of an attempt that the program has dropped without an answer: its thread or its event loop ended.
const DROPPED: &str = "WorkerEnded";

/// Who takes jobs: threads that wait, or an event loop.
pub trait Taker: Debug + Send + Sync + 'static {
    /// Whether attempts can be cancelled while they work: then their numbers are kept for [`Jobs::take_over`].
    fn cancels(&self) -> bool;

    /// There is something to take; `is_first` if there was nothing.
    fn wake(&self, is_first: bool);

    /// There will be no more jobs.
    fn end(&self);
}

/// The jobs of one worker.
#[derive(Debug)]
pub struct Jobs<T> {
    state: Mutex<State>,
    taker: T,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    /// The next job's number.
    next: u64,
    /// Jobs whose attempts have ended from outside.
    over: Vec<u64>,
}

/// Where an attempt reports its end.
type Answer = oneshot::Sender<Result<(), Error>>;

/// One attempt at a message.
#[derive(Debug)]
pub struct Job {
    /// Its number among the jobs of its worker.
    pub number: u64,
    /// The message.
    pub message: Arc<Message>,
    answer: Mutex<Option<Answer>>,
    /// Set once nobody waits for the answer.
    is_over: Arc<AtomicBool>,
}

impl Job {
    /// Whether nobody waits for its end: the attempt has taken too long.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Reports how it has ended. Only the first report counts.
    pub fn answer(&self, outcome: Result<(), Error>) {
        if let Some(answer) = lock(&self.answer).take() {
            // The attempt may have ended before.
            let _ = answer.send(outcome);
        }
    }
}

impl<T: Taker> Jobs<T> {
    /// No jobs yet, for this taker.
    pub fn new(taker: T) -> Self {
        Self {
            state: Mutex::default(),
            taker,
        }
    }

    /// Who takes them.
    pub fn taker(&self) -> &T {
        &self.taker
    }

    /// Takes up to `most` jobs that are there.
    pub fn take(&self, most: usize) -> Vec<Job> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(job) = state.waiting.pop_front()
        {
            // Its attempt ended while it waited: there is nobody to answer.
            if !job.is_over() {
                taken.push(job);
            }
        }
        taken
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// The numbers of the jobs whose attempts have ended from outside since the last call: nobody waits for them.
    pub fn take_over(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().over)
    }

    /// Runs this if there is nothing to take, and nothing can come meanwhile.
    pub fn if_nothing(&self, then: impl FnOnce()) {
        let state = self.lock();
        if state.waiting.is_empty() && state.over.is_empty() {
            then();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn put(&self, message: Arc<Message>, answer: Answer, is_over: &Arc<AtomicBool>) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        state.waiting.push_back(Job {
            number,
            message,
            answer: Mutex::new(Some(answer)),
            is_over: Arc::clone(is_over),
        });
        let is_first = state.waiting.len() == 1;
        drop(state);
        self.taker.wake(is_first);
        number
    }

    /// Takes a job out again that the program has not taken. Whether it was there.
    fn withdraw(&self, number: u64) -> bool {
        let waiting = &mut self.lock().waiting;
        let found = waiting.iter().position(|it| it.number == number);
        found.is_some_and(|place| waiting.remove(place).is_some())
    }

    /// Ends once the program has not taken a job in time: it has not seen the message.
    async fn nobody_takes(&self, number: u64) {
        tokio::time::sleep(LONGEST_UNTAKEN).await;
        if !self.withdraw(number) {
            std::future::pending::<()>().await;
        }
    }

    /// An attempt has ended from outside.
    fn end_attempt(&self, number: u64) {
        if !self.withdraw(number) && self.taker.cancels() {
            self.lock().over.push(number);
            self.taker.wake(true);
        }
    }
}

/// The handler of a worker: an attempt is a job.
#[derive(Debug)]
pub struct JobHandler<T>(pub Arc<Jobs<T>>);

/// An attempt that somebody waits for. The program learns it if the attempt ends from outside.
struct Waiting<'a, T: Taker> {
    jobs: &'a Jobs<T>,
    number: u64,
    is_over: Arc<AtomicBool>,
    has_ended: bool,
}

impl<T: Taker> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.is_over.store(true, Ordering::Release);
            self.jobs.end_attempt(self.number);
        }
    }
}

#[async_trait]
impl<T: Taker> Handler for JobHandler<T> {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        self.handle_shared(Arc::new(message.clone())).await
    }

    async fn handle_shared(&self, message: Arc<Message>) -> Result<(), Error> {
        let (answer, ended) = oneshot::channel();
        let is_over = Arc::<AtomicBool>::default();
        let mut waiting = Waiting {
            number: self.0.put(message, answer, &is_over),
            jobs: &self.0,
            is_over,
            has_ended: false,
        };
        let ended = tokio::select! {
            biased;
            ended = ended => Some(ended),
            () = self.0.nobody_takes(waiting.number) => None,
        };
        waiting.has_ended = true;
        let Some(ended) = ended else {
            return Err(Error::unavailable(BUSY, BUSY_TEXT));
        };
        let dropped = || Error::new(DROPPED, "the worker ended without an answer");
        ended.unwrap_or_else(|_| Err(dropped()))
    }

    fn has_ended(&self, error: &Error) -> bool {
        error.code == DROPPED
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
