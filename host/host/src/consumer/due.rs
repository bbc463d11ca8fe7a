//! Values that wait until they are due.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use backstop_core::lock::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Values in the order in which they are due. One task takes them.
#[derive(Debug)]
pub(super) struct Due<T> {
    values: Mutex<BTreeMap<Place, T>>,
    /// The number of the last place.
    last: AtomicU64,
    /// There is a new first value.
    changed: Notify,
}

/// When a value is due, and a number that no other has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(Instant, u64);

impl Place {
    pub(super) fn due(self) -> Instant {
        self.0
    }
}

impl<T> Due<T> {
    pub(super) fn new() -> Self {
        Self {
            values: Mutex::default(),
            last: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// A place for a value that is due at this time.
    pub(super) fn place(&self, due: Instant) -> Place {
        Place(due, self.last.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn add(&self, place: Place, value: T) {
        let is_first = {
            let mut values = self.values();
            values.insert(place, value);
            values
                .first_key_value()
                .is_some_and(|(first, _)| *first == place)
        };
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Removes the value of this place, if it is still there.
    pub(super) fn remove(&self, place: Place) {
        self.values().remove(&place);
    }

    /// The next value, once it is due.
    pub(super) async fn next(&self) -> T {
        loop {
            let first = self
                .values()
                .first_key_value()
                .map(|(place, _)| place.due());
            match first {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                },
            }
            if let Some(value) = self.take() {
                return value;
            }
        }
    }

    fn take(&self) -> Option<T> {
        let mut values = self.values();
        let first = values.first_entry()?;
        (first.key().due() <= Instant::now()).then(|| first.remove())
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<Place, T>> {
        lock(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    /// A task that takes values, and notes each with the second in which it came.
    fn taken(due: &Arc<Due<char>>) -> Arc<Mutex<Vec<(char, u64)>>> {
        let (due, started) = (Arc::clone(due), Instant::now());
        let noted = Arc::<Mutex<Vec<_>>>::default();
        let taken = Arc::clone(&noted);
        tokio::spawn(async move {
            loop {
                let value = due.next().await;
                noted
                    .lock()
                    .unwrap()
                    .push((value, started.elapsed().as_secs()));
            }
        });
        taken
    }

    fn add(due: &Due<char>, seconds: u64, value: char) -> Place {
        let place = due.place(Instant::now() + Duration::from_secs(seconds));
        due.add(place, value);
        place
    }

    #[tokio::test(start_paused = true)]
    async fn values_come_when_they_are_due_in_whatever_order_they_were_added() {
        let due = Arc::new(Due::new());
        let taken = taken(&due);
        sleep(Duration::from_secs(1)).await;
        for (seconds, value) in [(20, 'c'), (10, 'a'), (30, 'd'), (10, 'b')] {
            add(&due, seconds, value);
            sleep(Duration::ZERO).await;
        }
        sleep(Duration::from_secs(60)).await;
        let expected = [('a', 11), ('b', 11), ('c', 21), ('d', 31)];
        assert_eq!(*taken.lock().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_comes_in_time_although_the_one_before_it_was_removed() {
        let due = Arc::new(Due::new());
        let taken = taken(&due);
        let removed = add(&due, 10, 'a');
        sleep(Duration::from_secs(5)).await;
        due.remove(removed);
        // Nothing waits any more, and the task still sleeps until the time of the first.
        add(&due, 10, 'b');
        sleep(Duration::from_secs(30)).await;
        // Already over.
        add(&due, 0, 'c');
        sleep(Duration::from_secs(1)).await;
        assert_eq!(*taken.lock().unwrap(), [('b', 15), ('c', 35)]);
        due.remove(removed);
    }
}
