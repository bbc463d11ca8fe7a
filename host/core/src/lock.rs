//! Locks whose values stay usable when a thread has panicked with them.

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere is no reason to panic here, too: every change under a lock leaves a value that can be used.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// What is behind a lock, whether a thread has panicked with it or not.
pub fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
