//! Calls that something else drives: a program in another language, or an event loop of its own.
//!
//! The packages of other languages are made of this module, and it may change in any version.
//!
//! A [`Stepped`] retrier neither calls nor waits. Its calls say what is next ([`Step`]), and the program does it:
//!
//! ```
//! use backstop_retry::{Error, Retrier};
//! use backstop_retry::stepped::{Step, Stepped};
//!
//! let retrier = Stepped::build(Retrier::builder().max_attempts(2))?;
//! let mut call = retrier.call(Default::default());
//! let mut step = call.begin();
//! loop {
//!     step = match step {
//!         Step::Attempt { .. } => call.failed(Error::new("HTTP 503", "busy")),
//!         Step::Wait(time) => {
//!             assert!(time.as_millis() <= 50);
//!             std::thread::sleep(time);
//!             call.waited()
//!         }
//!         Step::Succeeded => unreachable!("every attempt fails"),
//!         Step::Ended(error) => {
//!             assert_eq!(error.attempts(), 2);
//!             break;
//!         }
//!     }
//! }
//! # Ok::<(), backstop_retry::BuildError>(())
//! ```

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use backstop_core::failure::{Error, Timestamp};
use backstop_core::lock::lock;
use backstop_time::{Clock, Deadline, Sleep, TestClock, TokioClock};

use crate::attempt::Attempt;
use crate::builder::{BuildError, RetrierBuilder};
use crate::error::RetryError;
use crate::retrier::Retrier;

/// A retrier whose calls are driven from outside.
#[derive(Debug, Clone)]
pub struct Stepped {
    retrier: Retrier,
    clock: SteppedClock,
}

/// What one call may set for itself, as the methods of [`Run`](crate::Run) of these names do.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the methods of `Run` document them")]
pub struct Options {
    pub deadline: Option<Deadline>,
    pub id: Option<String>,
    pub attributes: Vec<(String, String)>,
}

/// What is next in a call.
#[derive(Debug)]
pub enum Step {
    /// Make an attempt, then report how it ended.
    Attempt {
        /// Its number, and the call's deadline.
        attempt: Attempt,
        /// The time after which it is cut short, if anything does: a timeout or the deadline. Who can end it then says so by [`Call::waited`]. Who cannot lets it end by itself.
        cut_after: Option<Duration>,
    },
    /// Wait for this long, and go on with [`Call::waited`].
    Wait(Duration),
    /// The call has succeeded.
    Succeeded,
    /// The call has ended without success. The error has no inner one: the program has kept it.
    Ended(Box<RetryError<Error>>),
}

/// A call under way. Dropped, it is cancelled.
pub struct Call {
    run: Pin<Box<dyn Future<Output = Result<(), RetryError<Error>>> + Send>>,
    seat: Arc<Mutex<Seat>>,
    clock: SteppedClock,
}

/// What the call and the program leave for each other.
#[derive(Debug, Default)]
struct Seat {
    begun: Option<Attempt>,
    outcome: Option<Result<(), Error>>,
}

/// A time that is either that of this machine or moved on by a test.
#[derive(Debug, Clone)]
pub struct SteppedClock(Arc<Time>);

#[derive(Debug)]
enum Time {
    Real,
    ByHand(TestClock),
}

/// How often a call looks whether its bulkhead has a place.
const PLACE_CHECK: Duration = Duration::from_millis(5);

thread_local! {
    /// The earliest time that the call waits for which this thread polls.
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl Stepped {
    /// Builds a retrier with the time of this machine. A WebAssembly policy is loaded meanwhile.
    pub fn build(builder: RetrierBuilder) -> Result<Self, BuildError> {
        Self::with(builder, SteppedClock::real())
    }

    /// Builds a retrier with this clock.
    pub fn with(builder: RetrierBuilder, clock: SteppedClock) -> Result<Self, BuildError> {
        let retrier = builder.clock(clock.clone()).build()?;
        Ok(Self { retrier, clock })
    }

    /// The retrier itself, for what it says of itself. A call of its own would never go on.
    pub fn retrier(&self) -> &Retrier {
        &self.retrier
    }

    /// Its clock.
    pub fn clock(&self) -> &SteppedClock {
        &self.clock
    }

    /// A new call.
    pub fn call(&self, options: Options) -> Call {
        let seat = Arc::<Mutex<Seat>>::default();
        let (retrier, at) = (self.retrier.clone(), Arc::clone(&seat));
        let run = Box::pin(async move {
            let mut run = retrier.run(|attempt| {
                lock(&at).begun = Some(attempt);
                Outcome(Arc::clone(&at))
            });
            if let Some(deadline) = options.deadline {
                run = run.deadline(deadline);
            }
            if let Some(id) = options.id {
                run = run.id(id);
            }
            for (name, value) in options.attributes {
                run = run.attribute(name, value);
            }
            run.await
        });
        Call {
            run,
            seat,
            clock: self.clock.clone(),
        }
    }
}

/// Waits until the program reports how the attempt ended.
struct Outcome(Arc<Mutex<Seat>>);

impl Future for Outcome {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match lock(&self.0).outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl Call {
    /// The first step.
    pub fn begin(&mut self) -> Step {
        self.go_on()
    }

    /// The attempt has succeeded.
    pub fn succeeded(&mut self) -> Step {
        lock(&self.seat).outcome = Some(Ok(()));
        self.go_on()
    }

    /// The attempt has failed.
    pub fn failed(&mut self, error: Error) -> Step {
        lock(&self.seat).outcome = Some(Err(error));
        self.go_on()
    }

    /// The time has come that the last step named.
    pub fn waited(&mut self) -> Step {
        self.go_on()
    }

    fn go_on(&mut self) -> Step {
        let mut context = Context::from_waker(Waker::noop());
        // A wait without a delay asks to be polled once more, so that other tasks get their turn: the program has had it. Else it waits for a place of a bulkhead, which says nothing of a time.
        for _ in 0..2 {
            NEXT.set(None);
            match self.run.as_mut().poll(&mut context) {
                Poll::Ready(Ok(())) => return Step::Succeeded,
                Poll::Ready(Err(error)) => return Step::Ended(Box::new(error)),
                Poll::Pending => {}
            }
            let next = NEXT.take();
            let left = next.map(|next| next.saturating_duration_since(self.clock.now()));
            if let Some(attempt) = lock(&self.seat).begun.take() {
                return Step::Attempt {
                    attempt,
                    cut_after: left,
                };
            }
            if let Some(left) = left {
                return Step::Wait(left);
            }
        }
        Step::Wait(PLACE_CHECK)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl SteppedClock {
    /// The time of this machine.
    pub fn real() -> Self {
        Self(Arc::new(Time::Real))
    }

    /// A time that moves on by [`advance`](Self::advance) alone.
    pub fn by_hand() -> Self {
        Self(Arc::new(Time::ByHand(TestClock::by_hand())))
    }

    /// Moves a time by hand on. The time of this machine moves on by itself.
    pub fn advance(&self, time: Duration) {
        if let Time::ByHand(clock) = &*self.0 {
            clock.advance(time);
        }
    }

    /// The time by hand that has passed; `None` for the time of this machine.
    pub fn elapsed(&self) -> Option<Duration> {
        match &*self.0 {
            Time::Real => None,
            Time::ByHand(clock) => Some(clock.elapsed()),
        }
    }

    fn clock(&self) -> &dyn Clock {
        match &*self.0 {
            Time::Real => &TokioClock,
            Time::ByHand(clock) => clock,
        }
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Instant {
        self.clock().now()
    }

    fn time(&self) -> Timestamp {
        self.clock().time()
    }

    fn sleep_until(&self, until: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= until {
                return Poll::Ready(());
            }
            let next = NEXT.get().map_or(until, |next| next.min(until));
            NEXT.set(Some(next));
            Poll::Pending
        }))
    }

    /// Nobody else polls a call, so its policy is evaluated on the thread that does.
    fn is_virtual(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "stepped_tests.rs"]
mod tests;
