//! The threads on which decisions are made. A decision that waits for a thread takes little memory; a thread has a stack.
//!
//! A queue has as many threads as there are processors, and takes at most half of the sandbox's places: more would not make its decisions faster, and a slow policy would delay those of other queues.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use backstop_core::lock::lock;
use tokio::sync::oneshot;

use crate::policy::DECISIONS;

/// The most decisions of one queue at once: half of the sandbox's places.
const MOST: u32 = DECISIONS / 2;

type Task = Box<dyn FnOnce() + Send>;

/// The threads of one queue. Each makes one decision after another, and ends when none waits.
pub(crate) struct DecisionThreads {
    state: Mutex<State>,
    /// The most threads at once.
    most: u32,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Task>,
    threads: u32,
}

impl Default for DecisionThreads {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            state: Mutex::default(),
            most: u32::try_from(processors).unwrap_or(MOST).clamp(1, MOST),
        }
    }
}

impl DecisionThreads {
    /// Makes a decision on one of the threads. `None` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        decide: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (decided, decision) = oneshot::channel();
        self.add(Box::new(move || {
            // Fails if nobody awaits the decision any more.
            let _ = decided.send(decide());
        }));
        decision.await.ok()
    }

    fn add(self: &Arc<Self>, task: Task) {
        let mut state = self.lock();
        state.waiting.push_back(task);
        if state.threads < self.most {
            state.threads += 1;
            let this = Arc::clone(self);
            tokio::task::spawn_blocking(move || this.make_decisions());
        }
    }

    fn make_decisions(&self) {
        while let Some(task) = self.next() {
            // The panic was reported. It ends its decision, not the thread.
            let _ = catch_unwind(AssertUnwindSafe(task));
        }
    }

    /// The next decision. The thread ends if there is none.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_wave_of_decisions_is_made_on_few_threads() {
        let threads = Arc::new(DecisionThreads::default());
        let decisions = (0..400).map(|number| {
            threads.run(move || {
                thread::yield_now();
                (number, thread::current().id())
            })
        });
        let decisions = join_all(decisions).await;
        let made = decisions.iter().map(|decision| decision.unwrap().0);
        assert!(made.eq(0..400));
        let threads: HashSet<_> = decisions.iter().flatten().map(|it| it.1).collect();
        // A thread that finds no decision ends, and another one may begin.
        assert!(threads.len() <= 4 * DECISIONS as usize, "{}", threads.len());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_queue_leaves_places_for_the_decisions_of_others() {
        let threads = Arc::new(DecisionThreads::default());
        let running = Arc::new(AtomicU32::new(0));
        // Each decision waits until as many as possible are being made.
        let together = Arc::new(Barrier::new(threads.most as usize));
        let decisions = (0..25 * threads.most).map(|_| {
            let (running, together) = (Arc::clone(&running), Arc::clone(&together));
            threads.run(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                together.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                now
            })
        });
        let most = join_all(decisions).await.into_iter().flatten().max();
        assert_eq!(most, Some(threads.most));
        assert!(threads.most <= MOST);
    }

    #[tokio::test]
    async fn a_panic_ends_one_decision() {
        let threads = Arc::new(DecisionThreads::default());
        let decisions = (0..40).map(|number| {
            threads.run(move || {
                assert!(number % 2 == 0);
                number
            })
        });
        let made: Vec<_> = join_all(decisions).await.into_iter().flatten().collect();
        assert_eq!(made.len(), 20);
        tokio::task::yield_now().await;
        assert_eq!(threads.run(|| 1).await, Some(1));
    }
}
