//! Which of Python's threads takes the next job.
//!
//! Few threads are best for handlers that compute, since they share the interpreter's lock, and many for handlers that wait. So a thread is woken if none works, or if those that work have taken nothing for a while ([`STALLED`]). If it gets the lock at once, they wait for something, and it takes a job. If not, they compute, and it only takes one if that lasts ([`COMPUTES`]).

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use backstop_core::clock;
use backstop_core::lock::{lock, unpoisoned};
use backstop_embed::jobs::{Job, Jobs, Taker};

/// After this time without a job that was taken, one more thread takes jobs.
const STALLED: Duration = Duration::from_micros(500);

/// A thread that waits this long for the interpreter's lock waits for one that computes.
const CONTENDED: Duration = Duration::from_millis(1);

/// After this time without a job that was taken, one more thread takes jobs also if others compute.
const COMPUTES: Duration = Duration::from_millis(50);

/// The threads of one worker.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    state: Mutex<State>,
    /// Something changed for those that wait.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads without a job: they wait for one.
    idle: usize,
    /// Threads that have a job.
    working: usize,
    /// One of the idle threads looks whether those that work are stalled.
    is_watched: bool,
    /// How often jobs were taken, and when last.
    taken: u64,
    last_taken: Option<Instant>,
    is_closed: bool,
}

/// A thread that was woken.
pub(crate) struct Woken {
    at: Instant,
    /// How often jobs had been taken.
    taken: u64,
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes jobs that are there, for a thread that comes from a job. A new thread is a spare one: it waits like the others, unless none works. Without a job, the thread is idle from now on.
    pub(crate) fn take_now(
        &self,
        jobs: &Jobs<impl Taker>,
        most: usize,
        has_worked: bool,
    ) -> Vec<Job> {
        let mut state = self.lock();
        if has_worked {
            state.working -= 1;
        }
        let goes_on = has_worked || state.working == 0;
        let taken = if goes_on {
            state.take(jobs, most)
        } else {
            Vec::new()
        };
        state.idle += usize::from(taken.is_empty());
        taken
    }

    /// A thread waits no longer.
    pub(crate) fn leave(&self) {
        self.lock().idle -= 1;
    }

    /// Whether one more thread is needed: no other one waits for what comes next.
    pub(crate) fn wants_one(&self) -> bool {
        let state = self.lock();
        state.idle == 0 && !state.is_closed
    }

    /// There is a job more.
    pub(crate) fn wake(&self) {
        let mut state = self.lock();
        let wakes = state.idle > 0 && !state.is_watched;
        state.is_watched |= wakes;
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Waits until there may be a job for this thread; `None` once there will be no more.
    pub(crate) fn wait(&self, jobs: &Jobs<impl Taker>) -> Option<Woken> {
        let mut state = self.lock();
        loop {
            if jobs.is_empty() {
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
    pub(crate) fn take_after(
        &self,
        jobs: &Jobs<impl Taker>,
        woken: &Woken,
        most: usize,
    ) -> Vec<Job> {
        let mut state = self.lock();
        if state.working > 0 {
            let now = clock::instant();
            let since = state.last_taken.unwrap_or(woken.at);
            let computes = now.duration_since(woken.at) >= CONTENDED;
            if state.taken != woken.taken || computes && now.duration_since(since) < COMPUTES {
                return Vec::new();
            }
        }
        let taken = state.take(jobs, most);
        if !taken.is_empty() {
            // Another one watches what is left.
            state.is_watched = !jobs.is_empty() && state.idle > 1;
            if state.is_watched {
                self.changed.notify_one();
            }
        }
        taken
    }

    /// No more jobs: those that wait end.
    pub(crate) fn end(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl State {
    fn take(&mut self, jobs: &Jobs<impl Taker>, most: usize) -> Vec<Job> {
        let taken = jobs.take(most);
        if !taken.is_empty() {
            self.taken += 1;
            self.last_taken = Some(clock::instant());
            self.working += 1;
        }
        taken
    }
}
