//! One call: attempts and waits, as one future.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use backstop_core::failure::{Error, Milliseconds};
use pin_project_lite::pin_project;
use tracing::Span;

use crate::attempt::Attempt;
use crate::clock::Sleep;
use crate::deadline::Deadline;
use crate::describe::{By, ByTrait, Describer};
use crate::error::{End, RetryError, State as Ended};
use crate::progress::Progress;
use crate::retrier::{Inner, Retrier, Step, has_room};

/// What one call may set for itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) deadline: Option<Deadline>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) min_attempt_time: Duration,
    pub(crate) interrupt_at_deadline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: None,
            attempt_timeout: None,
            min_attempt_time: Duration::ZERO,
            interrupt_at_deadline: true,
        }
    }
}

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
        timer: Option<(Cut, Sleep)>,
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
        Waiting {
            sleep: Sleep,
        },
        Done,
    }
}

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

impl<F, Fut, T, E, D> Run<'_, F, Fut, T, E, D> {
    /// When the result is needed: an instant, a duration from the start of the call, or the time of a Lambda context. See [`Deadline`].
    ///
    /// No attempt starts after it, no wait begins that cannot end before it, and an attempt that is under way is [cut short](Self::interrupt_at_deadline).
    pub fn deadline(mut self, deadline: impl Into<Deadline>) -> Self {
        self.options.deadline = Some(deadline.into());
        self
    }

    /// The longest that one attempt may take. A longer one is cut short and counts as a failure with the code `Timeout`, which the policy may retry.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.options.attempt_timeout = Some(timeout);
        self
    }

    /// The least time before the deadline that makes an attempt worthwhile; 0 by default. With less time left, the call ends instead.
    pub fn min_attempt_time(mut self, time: Duration) -> Self {
        self.options.min_attempt_time = time;
        self
    }

    /// Whether the deadline cuts an attempt short that is under way; yes by default, because the caller needs an answer by then. With `false` the last attempt may end after the deadline.
    ///
    /// An attempt that is cut short may still have had its effect on the other side, as with every timeout.
    pub fn interrupt_at_deadline(mut self, interrupt: bool) -> Self {
        self.options.interrupt_at_deadline = interrupt;
        self
    }

    /// The id of the call: the `message-id` of its failures, in logs and decision records. The randomness of its delays derives from it. By default each call has an id of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Passes an attribute to the policy, such as the tenant or the operation.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
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
                            let cut = ready!(self.as_mut().poll_cut(context));
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
                StateProjection::Waiting { sleep } => {
                    ready!(sleep.as_mut().poll(context));
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

impl<F, Fut, T, E, D> Run<'_, F, Fut, T, E, D>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    D: Describer<E>,
{
    /// Begins the next attempt.
    fn attempt(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.attempts = this.attempts.saturating_add(1);
        let number = NonZeroU32::new(*this.attempts).unwrap_or(NonZeroU32::MIN);
        if let Some(failing) = this.failing
            && let Some(reservation) = &mut failing.progress.reservation
        {
            reservation.send();
        }
        this.retrier.metrics.attempts.increment(1);
        let span = tracing::debug_span!("attempt", retrier = &*this.retrier.name, attempt = number);
        let attempt = Attempt {
            number,
            deadline: *this.deadline,
        };
        let future = span.in_scope(|| (this.function)(attempt));
        this.state.set(State::Attempting { future, span });
    }

    /// Waits until the attempt is cut short, if it ever is.
    fn poll_cut(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cut> {
        let this = self.project();
        if this.timer.is_none() {
            let deadline = this.deadline.filter(|_| this.options.interrupt_at_deadline);
            let clock = &this.retrier.clock;
            let timeout = this.options.attempt_timeout;
            let timeout = timeout.and_then(|timeout| {
                let at = clock.now().checked_add(timeout)?;
                Some((at, Cut::AttemptTimeout(timeout)))
            });
            let deadline = deadline.map(|at| (at, Cut::Deadline));
            let first = match (deadline, timeout) {
                (Some(deadline), Some(timeout)) if timeout.0 < deadline.0 => Some(timeout),
                (deadline, timeout) => deadline.or(timeout),
            };
            *this.timer = first.map(|(at, cut)| (cut, clock.sleep_until(at)));
        }
        match this.timer {
            Some((cut, sleep)) => sleep.as_mut().poll(context).map(|()| *cut),
            None => Poll::Pending,
        }
    }

    /// The attempt failed: with the function's own error, or with none if it was cut short. Either waits for the next attempt, or ends the call.
    fn failed(
        self: Pin<&mut Self>,
        description: Error,
        error: Option<E>,
    ) -> Result<(), RetryError<E>> {
        let mut this = self.project();
        let retrier = *this.retrier;
        *this.timer = None;
        // The attempt's future must not live on while the call waits.
        this.state.set(State::Done);
        let attempt = NonZeroU32::new(*this.attempts).unwrap_or(NonZeroU32::MIN);
        let failing = this.failing.get_or_insert_with(|| {
            let id = this.id.take().unwrap_or_else(|| retrier.ids.next());
            Box::new(Failing {
                progress: Progress::new(id, retrier.clock.now()),
                error: None,
            })
        });
        if error.is_some() {
            failing.error = error;
        }
        let progress = &mut failing.progress;
        let failure = progress.failure(retrier, attempt, description, this.attributes);
        let evaluation = retrier.evaluate(&failure);
        let step = retrier.conclude(
            progress,
            &failure,
            evaluation,
            *this.deadline,
            this.options.min_attempt_time,
        );
        match step {
            Step::Retry(at) => {
                let sleep = retrier.clock.sleep_until(at);
                this.state.set(State::Waiting { sleep });
                Ok(())
            }
            Step::End(end, time_left) => {
                this.under_way.has_begun = false;
                let state = ended(this.failing.take(), *this.attempts, time_left);
                Err(RetryError::new(end, state))
            }
        }
    }

    /// The function succeeded.
    fn succeeded(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.timer = None;
        this.state.set(State::Done);
        this.under_way.has_begun = false;
        match this.failing.take() {
            None => this.retrier.first_succeeded(),
            Some(failing) => {
                if let Some(reservation) = failing.progress.reservation {
                    reservation.succeeded();
                }
                this.retrier.succeeded(*this.attempts);
            }
        }
    }

    /// The deadline came during the attempt.
    fn interrupted(mut self: Pin<&mut Self>, now: Instant) -> RetryError<E> {
        let this = self.as_mut().project();
        let failing = this.failing.get_or_insert_with(|| {
            Box::new(Failing {
                progress: Progress::new(String::new(), now),
                error: None,
            })
        });
        failing.progress.description =
            Error::new("Timeout", "the deadline came during the attempt");
        self.out_of_time(now)
    }

    /// The deadline ends the call before or during an attempt.
    fn out_of_time(self: Pin<&mut Self>, now: Instant) -> RetryError<E> {
        let mut this = self.project();
        *this.timer = None;
        this.state.set(State::Done);
        this.under_way.has_begun = false;
        let time_left = this
            .deadline
            .map(|deadline| deadline.saturating_duration_since(now));
        // Before the event: it gives back what a retry took that was not sent.
        let state = ended(this.failing.take(), *this.attempts, time_left);
        this.retrier.deadline_exceeded(*this.attempts, time_left);
        RetryError::new(End::DeadlineExceeded, state)
    }
}

/// The state of a call that ends now.
fn ended<E>(
    failing: Option<Box<Failing<E>>>,
    attempts: u32,
    time_left: Option<Duration>,
) -> Ended<E> {
    let (progress, error) = match failing {
        Some(failing) => (Some(failing.progress), failing.error),
        None => (None, None),
    };
    let (description, decision) = match progress {
        Some(progress) => (Some(progress.description), progress.decision),
        None => (None, None),
    };
    Ended {
        attempts,
        error,
        description,
        decision,
        time_left,
    }
}

/// The failure of an attempt that took longer than its timeout.
fn timed_out(timeout: Duration) -> Error {
    let timeout = Milliseconds::from_duration(timeout);
    Error::new("Timeout", format!("the attempt took longer than {timeout}"))
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
#[path = "run_tests.rs"]
mod tests;
