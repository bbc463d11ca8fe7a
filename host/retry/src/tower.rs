//! The retrier for [tower] services (feature `tower`): a layer, and a policy for tower's own `Retry`.
//!
//! Prefer [`RetryLayer`]: its errors tell how a call ended, and its calls have deadlines and timeouts. [`RetryPolicy`] fits where tower's `Retry` is in use already and the type of the errors must stay.
//!
//! [tower]: ::tower

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tower::retry::Policy;
use ::tower::{Layer, Service};
use backstop_core::failure::Error;
use backstop_time::Sleep;

use crate::breaker::Pass;
use crate::describe::{By, ByTrait, Describer};
use crate::error::RetryError;
use crate::remembered::Remembered;
use crate::retrier::{Retrier, Step};

/// Retries the requests of a service. A request has to be `Clone`, and each attempt uses a clone of the service.
///
/// ```
/// use backstop_retry::{Error, Retrier, TestClock};
/// use backstop_retry::tower::RetryLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let clock = TestClock::new();
/// let retrier = Retrier::builder().clock(clock.clone()).build()?;
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(retrier))
///     .service(service_fn(async |_: &str| Err::<(), _>(Error::new("HTTP 503", "busy"))));
///
/// let error = clock.block_on(service.oneshot("a request")).unwrap_err();
/// assert_eq!(error.attempts(), 3);
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
///
/// The layer passes every response on. Turn responses that are errors into errors below it, such as with `map_result` and [`success`](crate::success).
#[derive(Debug, Clone)]
pub struct RetryLayer<D = ByTrait> {
    retrier: Retrier,
    describer: D,
    deadline: Option<Duration>,
}

impl RetryLayer {
    /// Retries as this retrier does.
    pub fn new(retrier: Retrier) -> Self {
        Self {
            retrier,
            describer: ByTrait,
            deadline: None,
        }
    }
}

impl<D> RetryLayer<D> {
    /// The deadline of each request, from its start.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Describes the service's errors with a closure, see [`Run::describe`](crate::Run::describe).
    pub fn describe<C>(self, describe: C) -> RetryLayer<By<C>> {
        RetryLayer {
            retrier: self.retrier,
            describer: By(describe),
            deadline: self.deadline,
        }
    }
}

impl<S, D: Clone> Layer<S> for RetryLayer<D> {
    type Service = RetryService<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose requests are retried, made by [`RetryLayer`].
#[derive(Debug, Clone)]
pub struct RetryService<S, D = ByTrait> {
    inner: S,
    layer: RetryLayer<D>,
}

type Retried<T, E> = Pin<Box<dyn Future<Output = Result<T, RetryError<E>>> + Send>>;

impl<S, D, Request> Service<Request> for RetryService<S, D>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: 'static,
    S::Error: Send + 'static,
    D: Describer<S::Error> + Clone + Send + 'static,
    Request: Clone + Send + 'static,
{
    type Response = S::Response;
    type Error = RetryError<S::Error>;
    type Future = Retried<S::Response, S::Error>;

    /// Always ready: each attempt waits for its own clone of the service, and its deadline holds for that wait too.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let RetryLayer {
            retrier,
            describer,
            deadline,
        } = self.layer.clone();
        let service = self.inner.clone();
        Box::pin(async move {
            let mut call = retrier
                .run(move |_| {
                    let mut service = service.clone();
                    let request = request.clone();
                    async move {
                        poll_fn(|context| service.poll_ready(context)).await?;
                        service.call(request).await
                    }
                })
                .described_by(describer);
            if let Some(deadline) = deadline {
                call = call.deadline(deadline);
            }
            call.await
        })
    }
}

/// A policy for tower's own `Retry`.
///
/// The errors stay those of the service; how a call ended is in the events and the metrics of the retrier. tower makes a clone of the policy for each request, so a clone begins anew. A WebAssembly policy is evaluated on the caller's thread.
///
/// ```
/// use backstop_retry::Retrier;
/// use backstop_retry::tower::RetryPolicy;
/// use tower::retry::RetryLayer;
///
/// let retrier = Retrier::builder().name("articles").build()?;
/// let layer = RetryLayer::new(RetryPolicy::new(retrier));
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
pub struct RetryPolicy<D = ByTrait> {
    layer: RetryLayer<D>,
    /// When the request began, if it has a deadline.
    began: Option<Instant>,
    attempts: u32,
    remembered: Option<Box<Remembered>>,
}

impl RetryPolicy {
    /// Retries as this retrier does, except that attempts are never cut short and never refused: a breaker counts them and ends their retries while it is open, and a bulkhead does nothing. tower asks a policy about the next attempt only after one has failed.
    pub fn new(retrier: Retrier) -> Self {
        Self::of(RetryLayer::new(retrier))
    }
}

impl<D> RetryPolicy<D> {
    fn of(layer: RetryLayer<D>) -> Self {
        Self {
            layer,
            began: None,
            attempts: 0,
            remembered: None,
        }
    }

    /// The deadline of each request, from its start: no wait begins that cannot end before it.
    ///
    /// tower does not ask a policy again after a wait. If the timer or the service is late, one attempt may start after the deadline; its failure then ends the request. [`RetryLayer`] makes no such attempt.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.layer.deadline = Some(deadline);
        self
    }

    /// Describes the service's errors with a closure, see [`Run::describe`](crate::Run::describe).
    pub fn describe<C>(self, describe: C) -> RetryPolicy<By<C>> {
        RetryPolicy::of(self.layer.describe(describe))
    }

    /// The breaker's pass for the attempt that has ended: tower asks nobody before an attempt.
    fn pass(&self) -> Option<Pass> {
        let retrier = &self.layer.retrier.0;
        retrier.breaker.as_ref()?.pass_for_made(retrier.clock.now())
    }

    fn succeeded(&mut self) {
        let retrier = &self.layer.retrier.0;
        if let Some(pass) = self.pass() {
            pass.succeeded(retrier.clock.now());
        }
        let remembered = self.remembered.take().map(|it| *it);
        retrier.succeeded(remembered, self.attempts);
    }

    fn failed(&mut self, description: Error) -> Option<Sleep> {
        let pass = self.pass();
        let retrier = &self.layer.retrier.0;
        let number = NonZeroU32::new(self.attempts).unwrap_or(NonZeroU32::MIN);
        let remembered = self.remembered.get_or_insert_with(|| {
            Box::new(Remembered::new(retrier.ids.next(), retrier.clock.now()))
        });
        remembered.pass = pass;
        let failure = retrier.failure(remembered, number, description, &[]);
        let evaluation = retrier.policy.evaluate_now(&failure);
        let deadline = self.began.zip(self.layer.deadline);
        let deadline = deadline.and_then(|(began, deadline)| began.checked_add(deadline));
        let room = retrier.options.min_attempt_time;
        let (evaluated, step) = retrier.conclude(remembered, &failure, evaluation, deadline, room);
        retrier.report(&failure, &evaluated, step);
        match step {
            Step::Retry(at) => Some(retrier.clock.sleep_until(at)),
            Step::End(..) => {
                self.remembered = None;
                None
            }
        }
    }
}

/// A policy for another request.
impl<D: Clone> Clone for RetryPolicy<D> {
    fn clone(&self) -> Self {
        Self {
            began: self
                .layer
                .deadline
                .map(|_| self.layer.retrier.0.clock.now()),
            ..Self::of(self.layer.clone())
        }
    }
}

impl<Request, Response, E, D> Policy<Request, Response, E> for RetryPolicy<D>
where
    Request: Clone,
    D: Describer<E>,
{
    type Future = Sleep;

    fn retry(&mut self, _: &mut Request, result: &mut Result<Response, E>) -> Option<Self::Future> {
        self.attempts = self.attempts.saturating_add(1);
        self.layer.retrier.0.metrics.attempts.increment(1);
        match result {
            Ok(_) => {
                self.succeeded();
                None
            }
            Err(error) => {
                let description = self.layer.describer.describe(error);
                self.failed(description)
            }
        }
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        // tower calls this when it is about to send the attempt.
        if let Some(remembered) = &mut self.remembered
            && let Some(reservation) = &mut remembered.reservation
        {
            reservation.send();
        }
        Some(request.clone())
    }
}

backstop_core::shown!(RetryPolicy<D>, policy =>
    retrier = policy.layer.retrier, attempts = policy.attempts
);

#[cfg(test)]
#[path = "tower_tests.rs"]
mod tests;
