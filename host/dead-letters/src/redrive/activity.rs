//! What a run does now, for who watches it.

use std::sync::Mutex;
use std::time::Duration;

use backstop_core::lock::lock;

use super::ledger::Counts;

/// What a run is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// It reads the queue, to fix the set.
    #[default]
    Reading,
    /// It moves the letters of this step, from 0.
    Moving(usize),
    /// It waits for letters that come back after this step.
    Watching(usize, Duration),
    /// It waits for so many letters that others hold.
    WaitingForOthers(usize),
    /// It looks for letters that came back.
    Looking,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What it does.
    pub phase: Phase,
    /// Letters read while the set is fixed.
    pub read: u64,
    /// What it has done.
    pub counts: Counts,
}

/// What a run is doing, shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Activity(Mutex<Snapshot>);

impl Activity {
    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        *lock(&self.0)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut lock(&self.0));
    }
}
