//! Changes in watched folders, and when to act on them: a file is often written in several steps, and is read once they are over.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backstop_core::clock;

/// How long a policy's files must not have changed before they are checked.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// When they are checked anyway, if they change all the time.
const LONGEST: Duration = Duration::from_secs(2);

/// The delay for anything else in a folder: it may be a log, which changes all the time.
const OTHERS: Duration = Duration::from_secs(1);

/// Changes that were not acted on yet.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// The first and the last change of a policy's own files.
    own: Option<(Instant, Instant)>,
    /// The first change of anything else.
    other: Option<Instant>,
}

impl Pending {
    fn add(&mut self, is_own: bool, now: Instant) {
        match is_own {
            true => self.own = Some((self.own.map_or(now, |(first, _)| first), now)),
            false => self.other = Some(self.other.unwrap_or(now)),
        }
    }

    /// When to act on the changes. While a policy's own files change, other changes do not count.
    fn due(&self) -> Option<Instant> {
        match self.own {
            Some((first, last)) => Some((last + DEBOUNCE).min(first + LONGEST)),
            None => self.other.map(|first| first + OTHERS),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    has_ended: bool,
}

/// The changes that a thread has to act on, reported by other threads.
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

    /// Whether it is time to act on changes. True once for each time.
    pub(super) fn take(&self) -> bool {
        let mut state = self.state();
        let is_due = state.pending.due();
        let is_due = is_due.is_some_and(|due| due <= clock::instant());
        if is_due {
            state.pending = Pending::default();
        }
        is_due
    }

    /// Waits until it is time to act on changes, for `longest`, or until the end.
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
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it is due, in milliseconds, after changes at these.
    fn due(own: &[u64], others: &[u64]) -> Option<u128> {
        let began = clock::instant();
        let mut pending = Pending::default();
        for (is_own, times) in [(true, own), (false, others)] {
            for at in times {
                pending.add(is_own, began + Duration::from_millis(*at));
            }
        }
        Some(pending.due()?.duration_since(began).as_millis())
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
    fn changes_are_acted_on_once() {
        let changes = Changes::default();
        changes.wait(Duration::ZERO);
        changes.state().pending.add(true, clock::instant());
        assert!(!changes.take());
        let long_ago = clock::instant().checked_sub(LONGEST).unwrap();
        changes.state().pending.own = Some((long_ago, clock::instant()));
        assert!(changes.take());
        assert!(!changes.take());
        changes.end();
        changes.wait(Duration::from_secs(3_600));
        assert!(changes.have_ended());
    }
}
