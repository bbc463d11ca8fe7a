//! A clock for tests: it moves on by itself when everything waits for it.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use tokio::runtime::Handle;

use crate::clock::{Clock, Sleep};

/// What a wait says that nothing would end.
const NEVER_ENDS: &str = "a TestClock moves on in its block_on only, and this wait in a tokio runtime would never end: run the call with `clock.block_on(..)`, use the default clock in a `#[tokio::test(start_paused = true)]`, or move a `TestClock::by_hand()` on with `advance`";

/// A virtual clock for tests of a program's own retries. Nothing sleeps: [`block_on`](Self::block_on) runs a future and moves the time on to the next wait whenever the future can do nothing else.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_time::{Clock, TestClock};
///
/// let clock = TestClock::new();
/// let hour = Duration::from_secs(3_600);
/// clock.block_on(clock.sleep(hour));
/// assert_eq!(clock.elapsed(), hour);
/// ```
///
/// A call that is awaited in a tokio runtime instead panics as soon as it waits, since nothing would move the time on. In a tokio test, use tokio's paused time with the default clock, or a clock that is moved [by hand](Self::by_hand).
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    is_by_hand: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    elapsed: Duration,
    /// How many `block_on` run, which move the time on.
    driven: usize,
    /// The number of the next sleep, so that equal times keep their order.
    next: u64,
    sleeping: BTreeMap<(Duration, u64), Waker>,
}

impl TestClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::with(false)
    }

    /// A clock that the program moves on with [`advance`](Self::advance), such as for calls in tasks of tokio.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backstop_time::{Clock, TestClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let clock = TestClock::by_hand();
    /// let second = Duration::from_secs(1);
    /// let waiting = tokio::spawn(clock.sleep(second));
    /// while clock.sleeping() == 0 {
    ///     tokio::task::yield_now().await;
    /// }
    /// clock.advance(second);
    /// waiting.await.unwrap();
    /// # }
    /// ```
    pub fn by_hand() -> Self {
        Self::with(true)
    }

    fn with(is_by_hand: bool) -> Self {
        Self(Arc::new(Shared {
            start: backstop_core::clock::instant(),
            is_by_hand,
            state: Mutex::default(),
        }))
    }

    /// The virtual time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    /// How many sleeps wait for the time.
    pub fn sleeping(&self) -> usize {
        self.state().sleeping.len()
    }

    /// Moves the time on, and wakes what has waited for it.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.state();
        state.elapsed += duration;
        let elapsed = state.elapsed;
        let mut due = Vec::new();
        while let Some(first) = state.sleeping.first_entry()
            && first.key().0 <= elapsed
        {
            due.push(first.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }

    /// Runs a future to its end, and moves the time on to the next wait whenever the future can do nothing else. Runs one future; several at once are one by `join_all`.
    ///
    /// # Panics
    ///
    /// If the future waits for something that is not this clock.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _driving = Driving::begin(self);
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            while woken.0.swap(false, Ordering::AcqRel) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
            }
            let state = self.state();
            let next = state.sleeping.keys().next().map(|(until, _)| *until);
            let wait = next.map(|until| until.saturating_sub(state.elapsed));
            drop(state);
            match wait {
                Some(wait) => self.advance(wait),
                None => panic!("the future waits for something that is not this clock"),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.0.start + self.elapsed()
    }

    fn time(&self) -> Timestamp {
        Timestamp::OF_TESTS.plus(self.elapsed())
    }

    fn sleep_until(&self, until: Instant) -> Sleep {
        Box::pin(Timer {
            clock: self.clone(),
            until: until.saturating_duration_since(self.0.start),
            number: None,
        })
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// A `block_on` that runs.
struct Driving<'a>(&'a TestClock);

impl<'a> Driving<'a> {
    fn begin(clock: &'a TestClock) -> Self {
        clock.state().driven += 1;
        Self(clock)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.state().driven -= 1;
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// One sleep. Dropped, it no longer keeps the clock from moving past it.
struct Timer {
    clock: TestClock,
    until: Duration,
    number: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.state();
        if state.elapsed >= self.until {
            return Poll::Ready(());
        }
        if state.driven == 0 && !clock.0.is_by_hand && Handle::try_current().is_ok() {
            drop(state);
            panic!("{NEVER_ENDS}");
        }
        let number = *self.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        let key = (self.until, number);
        let previous = state.sleeping.insert(key, context.waker().clone());
        drop(state);
        // Not before: a waker may be the last owner of another timer.
        drop(previous);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.clock.state();
            let waker = state.sleeping.remove(&(self.until, number));
            drop(state);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_moves_on_to_the_next_wait() {
        let clock = TestClock::new();
        let (now, time) = (clock.now(), clock.time());
        let hour = Duration::from_secs(3_600);
        clock.block_on(async {
            clock.sleep_until(now + hour).await;
            assert_eq!(clock.elapsed(), hour);
            // In the past: at once.
            clock.sleep_until(now).await;
        });
        assert_eq!(clock.now(), now + hour);
        assert_eq!(clock.time().since(time), hour);
        assert_eq!(clock.sleeping(), 0);
    }

    #[test]
    fn a_dropped_sleep_is_forgotten() {
        let clock = TestClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_secs(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.sleeping(), 1);
        drop(sleep);
        assert_eq!(clock.sleeping(), 0);
    }

    #[tokio::test]
    #[should_panic(expected = "would never end")]
    async fn a_wait_in_a_tokio_runtime_says_that_it_would_never_end() {
        let clock = TestClock::new();
        clock
            .sleep_until(clock.now() + Duration::from_secs(1))
            .await;
    }

    #[tokio::test]
    async fn in_a_tokio_runtime_a_clock_moves_on_in_its_block_on_or_by_hand() {
        let second = Duration::from_secs(1);
        let clock = TestClock::new();
        clock.block_on(clock.sleep_until(clock.now() + second));
        assert_eq!(clock.elapsed(), second);
        let clock = TestClock::by_hand();
        let sleep = tokio::spawn(clock.sleep_until(clock.now() + second));
        while clock.sleeping() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(second);
        sleep.await.unwrap();
    }

    #[test]
    #[should_panic(expected = "not this clock")]
    fn a_future_that_waits_for_something_else_is_reported() {
        TestClock::new().block_on(std::future::pending::<()>());
    }
}
