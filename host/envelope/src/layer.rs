//! A tower layer around a Lambda function's handler: takes the envelope off, and tells the handler which attempt it is.

use std::num::NonZeroU32;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_runtime::LambdaInvocation;
use tokio::task::futures::TaskLocalFuture;
use tower::{Layer, Service};

use crate::Envelope;

tokio::task_local! {
    static CURRENT: RetryContext;
}

/// Which attempt at which event an invocation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryContext {
    /// 1 for the first attempt.
    pub attempt: NonZeroU32,
    /// When the first attempt failed, to the second; none in the first attempt.
    pub first_seen: Option<SystemTime>,
    /// The same for every attempt at one event: with `attempt`, an idempotency key for the attempt.
    pub id: String,
}

impl Default for RetryContext {
    fn default() -> Self {
        Self {
            attempt: NonZeroU32::MIN,
            first_seen: None,
            id: String::new(),
        }
    }
}

impl RetryContext {
    /// That of the invocation which is being handled; none outside of a handler within an [`UnwrapLayer`], tasks that it spawned included.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// The context of an invocation and, where its event is an envelope, the original payload.
    fn of(invocation: &LambdaInvocation) -> (Self, Option<Vec<u8>>) {
        let request_id = &invocation.context.request_id;
        let opened = str::from_utf8(&invocation.body)
            .ok()
            .and_then(Envelope::open);
        match opened {
            Some(Envelope { metadata, payload }) => {
                let first_seen = Duration::from_secs(metadata.initial_timestamp);
                let context = Self {
                    attempt: metadata.ordinal(),
                    first_seen: UNIX_EPOCH.checked_add(first_seen),
                    id: metadata.id.unwrap_or_else(|| request_id.clone()),
                };
                (context, Some(payload.get().as_bytes().to_vec()))
            }
            None => {
                let context = Self {
                    id: request_id.clone(),
                    ..Self::default()
                };
                (context, None)
            }
        }
    }
}

/// Makes an [`Unwrap`] of a service: `Runtime::new(handler).layer(UnwrapLayer)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnwrapLayer;

impl<S> Layer<S> for UnwrapLayer {
    type Service = Unwrap<S>;

    fn layer(&self, inner: S) -> Unwrap<S> {
        Unwrap(inner)
    }
}

/// Hands the original payload of each event to the service within.
#[derive(Debug, Clone)]
pub struct Unwrap<S>(S);

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for Unwrap<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<RetryContext, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let (context, payload) = RetryContext::of(&invocation);
        if let Some(payload) = payload {
            invocation.body = payload.into();
        }
        // A handler may ask before its first await, too.
        let future = CURRENT.sync_scope(context.clone(), || self.0.call(invocation));
        CURRENT.scope(context, future)
    }
}
