//! Runs work on several threads. Results come in the order of the work, whichever thread did it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// With more threads, they would wait for each other's instances.
const MOST: usize = 16;

/// How many threads evaluate a policy best: one for each processor, up to a limit.
pub fn default_threads() -> usize {
    available_parallelism().map_or(1, usize::from).min(MOST)
}

/// Calls `work` with each number below `count`. `done` is called after each, on the same thread.
pub(super) fn spread<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    done: impl Fn() + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker_loop = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return results;
            }
            results.push((number, work(number)));
            done();
        }
    };
    let mut results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| scope.spawn(worker_loop))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_work_with_any_number_of_threads() {
        let squares: Vec<_> = (0..100).map(|number| number * number).collect();
        for threads in [0, 1, 3, 200] {
            let calls = AtomicUsize::new(0);
            let done = || {
                calls.fetch_add(1, Ordering::Relaxed);
            };
            assert_eq!(
                spread(100, threads, |number| number * number, done),
                squares
            );
            assert_eq!(calls.into_inner(), 100);
        }
    }
}
