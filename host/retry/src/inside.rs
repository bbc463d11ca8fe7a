//! Whether the current thread runs an attempt of a retrier.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it exists, this thread runs an attempt.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        DEPTH.set(DEPTH.get().saturating_add(1));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Whether this thread runs an attempt of a retrier now.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}
