//! What this process could not write, counted since its start: metrics show it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Decision records.
pub static RECORDS: Lost = Lost(AtomicU64::new(0));

/// Log lines.
pub static LOG_LINES: Lost = Lost(AtomicU64::new(0));

/// The lines of one kind.
#[derive(Debug)]
pub struct Lost(AtomicU64);

impl Lost {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
