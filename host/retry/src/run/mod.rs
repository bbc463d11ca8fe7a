//! One call: attempts and waits, as one future.

mod options;
mod steps;

use std::fmt;
use std::future::ready;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use backstop_core::failure::Error;
use pin_project_lite::pin_project;
use tracing::Span;

use crate::attempt::Attempt;
use crate::clock::Sleep;
use crate::describe::{By, ByTrait, Describer};
use crate::error::RetryError;
use crate::progress::Progress;
use crate::retrier::{Inner, Retrier, has_room};

pub(crate) use options::Options;
use steps::timed_out;

pin_project! {
    /// A call under way: a future, made by [`Retrier::run`]. Its methods set what concerns this call alone; call them before the first `await`.
    ///
    /// Dropping it cancels the call: the attempt's future is dropped, no timer stays behind, and a retry that was not yet sent gives its tokens back to the [budget](crate::budget).
    #[must_use = "nothing happens until the call is awaited"]
    pub struct Run<'a, F, Fut, T, E, D = ByTrait> {
        retrier: &'a Inner,
        function: F,
        describer: D,
        options: Options,
        id: Option<String>,
        attributes: Vec<(String, String)>,
        // The deadline of the call, once it has begun.
        deadline: Option<Instant>,
        attempts: u32,
        failing: Option<Box<Failing<E>>>,
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

#[cfg(feature = "wasm")]
type Deciding = crate::decider::Pending;

/// Policies in Rust are evaluated at once.
#[cfg(not(feature = "wasm"))]
type Deciding = std::convert::Infallible;

/// A call after its first failure.
struct Failing<E> {
    progress: Progress,
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
    pub(crate) fn new(retrier: &'a Retrier, function: F, describer: ByTrait) -> Self {
        Self {
            retrier: &retrier.0,
            function,
            describer,
            options: retrier.0.options,
            id: None,
            attributes: Vec::new(),
            deadline: None,
            attempts: 0,
            failing: None,
            timer: None,
            state: State::New,
            under_way: UnderWay {
                retrier: &retrier.0,
                has_begun: false,
            },
            output: PhantomData,
        }
    }

    /// Describes the function's errors with a closure instead of their own [`Describe`](crate::Describe).
    ///
    /// ```
    /// use backstop_retry::{Error, Retrier, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let call = retrier
    ///     .run(|_| async { Err::<(), _>("no such article") })
    ///     .describe(|text| Error::new("ValidationException", *text));
    /// let error = clock.block_on(call).unwrap_err();
    /// assert_eq!(error.to_string(), "permanent error after 1 attempt: ValidationException");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn describe<C: Fn(&E) -> Error>(self, describe: C) -> Run<'a, F, Fut, T, E, By<C>> {
        self.described_by(By(describe))
    }

    /// Describes the function's errors in another way.
    pub(crate) fn described_by<D>(self, describer: D) -> Run<'a, F, Fut, T, E, D> {
        Run {
            retrier: self.retrier,
            function: self.function,
            describer,
            options: self.options,
            id: self.id,
            attributes: self.attributes,
            deadline: self.deadline,
            attempts: self.attempts,
            failing: self.failing,
            timer: self.timer,
            state: self.state,
            under_way: self.under_way,
            output: PhantomData,
        }
    }
}

/// Drives the call.
impl<F, Fut, T, E, D> Future for Run<'_, F, Fut, T, E, D>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    D: Describer<E>,
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
                        *this.deadline = deadline.resolve(&*retrier.clock, now);
                        if !has_room(now, *this.deadline, this.options.min_attempt_time) {
                            return Poll::Ready(Err(self.out_of_time(now)));
                        }
                    }
                    self.as_mut().attempt();
                }
                StateProjection::Attempting { future, span } => {
                    let polled = {
                        let _entered = span.enter();
                        #[cfg(feature = "aws")]
                        let _inside = crate::inside::Inside::enter();
                        future.poll(context)
                    };
                    match polled {
                        Poll::Ready(Ok(value)) => {
                            self.succeeded();
                            return Poll::Ready(Ok(value));
                        }
                        Poll::Ready(Err(error)) => {
                            let description = this.describer.describe(&error);
                            self.as_mut().failed(description, Some(error))?;
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
                                    self.as_mut().failed(timed_out(timeout), None)?;
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
                    self.as_mut().attempt();
                }
                StateProjection::Done => panic!("the call was polled after its end"),
            }
        }
    }
}

impl<F, Fut, T, E, D> fmt::Debug for Run<'_, F, Fut, T, E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("retrier", &self.retrier.name)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;
