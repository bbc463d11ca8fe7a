//! One call: attempts and waits, as one future.

mod admission;
mod condition;
mod options;
mod steps;

use std::fmt;
use std::future::ready;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use backstop_core::call::{has_room, not_ready, timed_out};
use backstop_time::Sleep;
use pin_project_lite::pin_project;
use tracing::Span;

use crate::attempt::Attempt;
use crate::bulkhead::Wait;
use crate::describe::{ByTrait, Describer};
use crate::error::RetryError;
use crate::remembered::Remembered;
use crate::retrier::{CallOptions, Inner, Retrier};

use admission::Admission;
pub use condition::{Always, Condition, RetryIf, RetryIfOk};

pin_project! {
    /// A call under way: a future, made by [`Retrier::run`]. Its methods set what concerns this call alone; call them before the first `await`.
    ///
    /// Dropping it cancels the call: the attempt's future is dropped, no timer stays behind, and a retry that was not yet sent gives its tokens back to the [budget](crate::budget).
    #[must_use = "nothing happens until the call is awaited"]
    pub struct Run<'a, F, Fut, T, E, D = ByTrait, C = Always> {
        retrier: &'a Inner,
        function: F,
        describer: D,
        condition: C,
        options: CallOptions,
        id: Option<String>,
        attributes: Vec<(String, String)>,
        // The deadline of the call, once it has begun.
        deadline: Option<Instant>,
        attempts: u32,
        failing: Option<Box<Failing<E>>>,
        // Of a retrier without breaker and bulkhead none, so that those pay nothing.
        admission: Option<Box<Admission>>,
        // Cuts the attempt short.
        timer: Option<Timer>,
        #[pin]
        state: State<Fut>,
        under_way: UnderWay<'a>,
        output: PhantomData<fn() -> T>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Fut> {
        New,
        // No place of the bulkhead is free.
        Entering {
            wait: Wait,
        },
        Attempting {
            #[pin]
            future: Fut,
            span: Span,
        },
        // The policy is evaluated on another thread.
        Deciding {
            evaluation: Deciding,
        },
        Waiting {
            sleep: Sleep,
            // Not polled yet.
            is_new: bool,
        },
        Done,
    }
}

impl Retrier {
    /// Runs a function until it succeeds or the call [ends](crate::RetryError). Await the returned [`Run`]; its methods give this one call a deadline, an id and other options.
    ///
    /// Each attempt is a new future of the function, which may be an async closure: `retrier.run(async |_| get("a-1").await)`. One that owns or changes what it captures needs [`run_with`](Self::run_with), or is a closure with an async block. Dropping the `Run` cancels the call at any point.
    pub fn run<F, Fut, T, E>(&self, function: F) -> Run<'_, F, Fut, T, E>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        Run::new(self, function, ByTrait)
    }
}

#[cfg(feature = "wasm")]
type Deciding = crate::decider::Pending;

/// Policies in Rust are evaluated at once.
#[cfg(not(feature = "wasm"))]
type Deciding = std::convert::Infallible;

/// A call after its first failure.
struct Failing<E> {
    remembered: Remembered,
    /// The last error that the function returned.
    error: Option<E>,
}

/// Counts a call that is dropped before its end.
struct UnderWay<'a> {
    retrier: &'a Inner,
    has_begun: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.has_begun {
            self.retrier.metrics.cancelled.increment(1);
        }
    }
}

/// Waits until an attempt is cut short.
struct Timer {
    cut: Cut,
    at: Instant,
    sleep: Sleep,
}

/// What cuts an attempt short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    AttemptTimeout(Duration),
    Deadline,
}

impl<'a, F, Fut, T, E> Run<'a, F, Fut, T, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    fn new(retrier: &'a Retrier, function: F, describer: ByTrait) -> Self {
        Self {
            retrier: &retrier.0,
            function,
            describer,
            condition: Always,
            options: retrier.0.options,
            id: None,
            attributes: Vec::new(),
            deadline: None,
            attempts: 0,
            failing: None,
            admission: None,
            timer: None,
            state: State::New,
            under_way: UnderWay {
                retrier: &retrier.0,
                has_begun: false,
            },
            output: PhantomData,
        }
    }
}

/// Drives the call.
impl<F, Fut, T, E, D, C> Future for Run<'_, F, Fut, T, E, D, C>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    D: Describer<E>,
    C: Condition<T, E>,
{
    type Output = Result<T, RetryError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = self.as_mut().project();
            let retrier = *this.retrier;
            match this.state.project() {
                StateProjection::New => {
                    let this = self.as_mut().project();
                    this.under_way.has_begun = true;
                    if let Some(deadline) = this.options.deadline {
                        let now = retrier.clock.now();
                        *this.deadline = now.checked_add(deadline.left(&*retrier.clock));
                        if !has_room(now, *this.deadline, this.options.min_attempt_time) {
                            return Poll::Ready(Err(self.out_of_time(now)));
                        }
                    }
                    self.as_mut().enter()?;
                }
                StateProjection::Entering { wait } => match wait.as_mut().poll(context) {
                    Poll::Ready(place) => self.as_mut().entered(place)?,
                    Poll::Pending => {
                        ready!(self.as_mut().poll_cut(context, None));
                        let now = retrier.clock.now();
                        return Poll::Ready(Err(self.out_of_time(now)));
                    }
                },
                StateProjection::Attempting { future, span } => {
                    let polled = {
                        let _entered = span.enter();
                        #[cfg(feature = "aws")]
                        let _inside = crate::inside::Inside::enter();
                        future.poll(context)
                    };
                    match polled {
                        Poll::Ready(Ok(value)) if this.condition.retries_ok(&value) => {
                            drop(value);
                            if let Some(admission) = this.admission
                                && let Some(pass) = admission.pass.take()
                            {
                                pass.succeeded(retrier.clock.now());
                            }
                            self.as_mut().failed(not_ready(), None, false)?;
                        }
                        Poll::Ready(Ok(value)) => {
                            self.succeeded();
                            return Poll::Ready(Ok(value));
                        }
                        Poll::Ready(Err(error)) => {
                            self.as_mut().returned(error)?;
                        }
                        Poll::Pending => {
                            let timeout = this.options.attempt_timeout;
                            let cut = ready!(self.as_mut().poll_cut(context, timeout));
                            match cut {
                                Cut::Deadline => {
                                    let now = retrier.clock.now();
                                    return Poll::Ready(Err(self.interrupted(now)));
                                }
                                Cut::AttemptTimeout(timeout) => {
                                    self.as_mut().failed(timed_out(timeout), None, false)?;
                                }
                            }
                        }
                    }
                }
                #[cfg(feature = "wasm")]
                StateProjection::Deciding { evaluation } => match evaluation.as_mut().poll(context)
                {
                    Poll::Ready((failure, evaluation)) => {
                        self.as_mut().decided(&failure, evaluation)?;
                    }
                    Poll::Pending => {
                        ready!(self.as_mut().poll_cut(context, None));
                        let now = retrier.clock.now();
                        return Poll::Ready(Err(self.out_of_time(now)));
                    }
                },
                #[cfg(not(feature = "wasm"))]
                StateProjection::Deciding { evaluation } => match *evaluation {},
                StateProjection::Waiting { sleep, is_new } => {
                    let slept = sleep.as_mut().poll(context);
                    if slept.is_ready() && *is_new {
                        // Without a delay other tasks get their turn all the same.
                        *is_new = false;
                        *sleep = Box::pin(ready(()));
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    *is_new = false;
                    ready!(slept);
                    let deadline = *this.deadline;
                    if deadline.is_some() {
                        // A timer may be late.
                        let now = retrier.clock.now();
                        if !has_room(now, deadline, this.options.min_attempt_time) {
                            return Poll::Ready(Err(self.out_of_time(now)));
                        }
                    }
                    self.as_mut().enter()?;
                }
                StateProjection::Done => panic!("the call was polled after its end"),
            }
        }
    }
}

impl<F, Fut, T, E, D, C> fmt::Debug for Run<'_, F, Fut, T, E, D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("retrier", &self.retrier.name)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod condition_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;
