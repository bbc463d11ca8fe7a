//! Changes in watched folders, and when to act on them. A file is often written in several steps; it is read after the last.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use backstop_core::clock;
use backstop_core::lock::{lock, unpoisoned};

/// A policy's files are checked when they have not changed for this long.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// Files that change all the time are checked after this long.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);

/// The delay after a change of another file in the folder, which may be a log that changes all the time.
const OTHER_FILES_DELAY: Duration = Duration::from_secs(1);

/// Changes that were not handled yet.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// The first and the last change of a policy's own files.
    own: Option<(Instant, Instant)>,
    /// The first change of anything else.
    other: Option<Instant>,
}

impl Pending {
    fn add(&mut self, is_own: bool, now: Instant) {
        if is_own {
            self.own = Some((self.own.map_or(now, |(first, _)| first), now))
        } else {
            self.other = Some(self.other.unwrap_or(now))
        }
    }

    /// When to handle the changes. While a policy's own files change, other changes are ignored.
    fn due(&self) -> Option<Instant> {
        match self.own {
            Some((first, last)) => Some((last + DEBOUNCE).min(first + MAX_DEBOUNCE)),
            None => self.other.map(|first| first + OTHER_FILES_DELAY),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    has_ended: bool,
}

/// Changes that other threads report to the thread that handles them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    state: Mutex<State>,
    changed: Condvar,
}

impl Changes {
    /// Records a change of one of the policy's own files, or of something else in their folders.
    pub(super) fn add(&self, is_own: bool) {
        self.state().pending.add(is_own, clock::instant());
        self.changed.notify_all();
    }

    /// Ends all waiting.
    pub(super) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    pub(super) fn have_ended(&self) -> bool {
        self.state().has_ended
    }

    /// Whether it is time to handle changes. If so, they count as handled.
    pub(super) fn take(&self) -> bool {
        let mut state = self.state();
        let is_due = state.pending.due();
        let is_due = is_due.is_some_and(|due| due <= clock::instant());
        if is_due {
            state.pending = Pending::default();
        }
        is_due
    }

    /// Waits until it is time to handle changes, for `longest`, or until [`Changes::end`].
    pub(super) fn wait(&self, longest: Duration) {
        let until = clock::instant() + longest;
        while !self.take() {
            let state = self.state();
            let now = clock::instant();
            if state.has_ended || now >= until {
                return;
            }
            let next = state.pending.due().map_or(until, |due| due.min(until));
            let waited = self.changed.wait_timeout(state, next.duration_since(now));
            drop(unpoisoned(waited));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of the check, in milliseconds, after changes at these times.
    fn due(own: &[u64], others: &[u64]) -> Option<u128> {
        let start = clock::instant();
        let mut pending = Pending::default();
        for (is_own, times) in [(true, own), (false, others)] {
            for at in times {
                pending.add(is_own, start + Duration::from_millis(*at));
            }
        }
        Some(pending.due()?.duration_since(start).as_millis())
    }

    #[test]
    fn a_file_is_checked_when_it_no_longer_changes_or_after_two_seconds() {
        let always: Vec<u64> = (0..1_000).map(|number| number * 10).collect();
        assert_eq!(due(&[], &[]), None);
        assert_eq!(due(&[0], &[]), Some(200));
        assert_eq!(due(&[0, 150, 300], &[]), Some(500));
        assert_eq!(due(&always, &[]), Some(2_000));
    }

    #[test]
    fn other_changes_neither_delay_nor_hasten_a_check() {
        let always: Vec<u64> = (0..1_000).map(|number| number * 10).collect();
        assert_eq!(due(&[], &always), Some(1_000));
        assert_eq!(due(&[5_000], &always), Some(5_200));
    }

    #[test]
    fn changes_are_handled_once() {
        let changes = Changes::default();
        changes.wait(Duration::ZERO);
        changes.state().pending.add(true, clock::instant());
        assert!(!changes.take());
        let long_ago = clock::instant().checked_sub(MAX_DEBOUNCE).unwrap();
        changes.state().pending.own = Some((long_ago, clock::instant()));
        assert!(changes.take());
        assert!(!changes.take());
        changes.end();
        changes.wait(Duration::from_secs(3_600));
        assert!(changes.have_ended());
    }
}
