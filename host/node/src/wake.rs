//! The event loop of JavaScript is woken when there are jobs.

use std::fmt;
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;
use backstop_embed::jobs::Taker;
use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

/// A function of JavaScript that is called with the number of a worker. A program does not end while there is one.
pub(crate) type Wake = ThreadsafeFunction<u32, (), u32, Status, false>;

/// Wakes the event loop for the jobs of one worker, from the start of the host to its end.
pub(crate) struct Waker {
    worker: u32,
    wake: Mutex<Option<Arc<Wake>>>,
}

impl Waker {
    pub(crate) fn new(worker: u32) -> Self {
        Self {
            worker,
            wake: Mutex::default(),
        }
    }

    /// From now on, this function is called.
    pub(crate) fn start(&self, wake: Arc<Wake>) {
        *lock(&self.wake) = Some(wake);
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waker").field(&self.worker).finish()
    }
}

impl Taker for Waker {
    fn cancels(&self) -> bool {
        true
    }

    fn wake(&self, is_first: bool) {
        let wake = is_first.then(|| lock(&self.wake).clone()).flatten();
        if let Some(wake) = wake {
            // The program may be about to end: then nobody takes the job, and the message is handed back.
            wake.call(self.worker, ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    fn end(&self) {
        *lock(&self.wake) = None;
    }
}
