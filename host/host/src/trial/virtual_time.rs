//! The time of a trial: it stands still while work is done outside of the runtime.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, mpsc};
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::queue::ReceiptHandle;

/// The time of a trial. It stands still while a handler works, unless the handler [sleeps](Self::sleep) in it.
#[derive(Debug, Clone, Default)]
pub struct VirtualTime(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    begun: OnceLock<(Handle, Instant)>,
}

#[derive(Debug, Default)]
struct State {
    /// The attempts under way, by the receive that each belongs to, and whether they sleep.
    attempts: HashMap<ReceiptHandle, bool>,
    /// Those that do not sleep.
    working: usize,
    /// A task that blocks holds the time.
    is_held: bool,
    /// Nothing holds the time any more.
    is_free: bool,
}

impl State {
    fn stands_still(&self) -> bool {
        self.working > 0 && !self.is_free
    }
}

impl VirtualTime {
    /// Begins, in the runtime whose time it is.
    pub(super) fn begin(&self) {
        // A time that is used again goes on.
        let _ = self.0.begun.set((Handle::current(), Instant::now()));
    }

    /// The virtual time that has passed. Any thread may ask.
    pub fn elapsed(&self) -> Duration {
        self.0
            .begun
            .get()
            .map_or(Duration::ZERO, |(runtime, begin)| {
                let _entered = runtime.enter();
                begin.elapsed()
            })
    }

    /// Lets virtual time pass for the attempts that these receives belong to, and blocks meanwhile. Their attempts may time out. Whether the time has come: not if the trial has ended.
    pub fn sleep(&self, attempts: &[ReceiptHandle], duration: Duration) -> bool {
        let Some((runtime, _)) = self.0.begun.get() else {
            return false;
        };
        let (slept, waiting) = mpsc::channel();
        let (time, attempts) = (self.clone(), attempts.to_vec());
        runtime.spawn(async move {
            time.set_sleeping(&attempts, true);
            sleep(duration).await;
            time.set_sleeping(&attempts, false);
            // Nobody waits for it if its thread has ended.
            let _ = slept.send(());
        });
        waiting.recv().is_ok()
    }

    /// An attempt works from now on, in the runtime, until the result is dropped.
    pub(super) fn attempt(&self, receipt: ReceiptHandle) -> Working {
        let mut state = self.lock();
        state.attempts.insert(receipt.clone(), false);
        state.working += 1;
        self.hold(state);
        Working {
            time: self.clone(),
            receipt,
        }
    }

    /// The time goes on, whatever works.
    pub(super) fn free(&self) {
        self.lock().is_free = true;
        self.0.changed.notify_all();
    }

    fn set_sleeping(&self, attempts: &[ReceiptHandle], sleeps: bool) {
        let mut state = self.lock();
        for attempt in attempts {
            // One that has timed out meanwhile holds nothing.
            let Some(before) = state.attempts.get_mut(attempt) else {
                continue;
            };
            match (std::mem::replace(before, sleeps), sleeps) {
                (false, true) => state.working -= 1,
                (true, false) => state.working += 1,
                (true, true) | (false, false) => {}
            }
        }
        self.0.changed.notify_all();
        self.hold(state);
    }

    /// Holds the time, if something works: tokio's does not jump while there is a task that blocks.
    fn hold(&self, mut state: MutexGuard<'_, State>) {
        if state.is_held || !state.stands_still() {
            return;
        }
        state.is_held = true;
        drop(state);
        let time = self.clone();
        tokio::task::spawn_blocking(move || {
            let state = time.lock();
            let mut state = unpoisoned(
                time.0
                    .changed
                    .wait_while(state, |state| state.stands_still()),
            );
            state.is_held = false;
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

/// An attempt that works.
pub(super) struct Working {
    time: VirtualTime,
    receipt: ReceiptHandle,
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.time.lock();
        if state.attempts.remove(&self.receipt) == Some(false) {
            state.working -= 1;
        }
        drop(state);
        self.time.0.changed.notify_all();
    }
}
