//! A tower layer around a Lambda function's handler. It unwraps the envelope and provides the attempt as a [`RetryContext`].

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

/// The event and the attempt of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryContext {
    /// The attempt; 1 for the first.
    pub attempt: NonZeroU32,
    /// When the first attempt failed, to the second; `None` in the first attempt.
    pub first_seen: Option<SystemTime>,
    /// Identifies the event; the same in all of its attempts. Together with `attempt` it is an idempotency key for the attempt.
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
    /// The context of the current invocation. `None` outside of a handler within an [`UnwrapLayer`], and in the tasks that the handler spawns.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// The context of an event and, if the event is an envelope, the original payload.
    fn of(event: &[u8], request_id: &str) -> (Self, Option<Vec<u8>>) {
        let envelope = std::str::from_utf8(event).ok().and_then(Envelope::open);
        match envelope {
            Some(Envelope { metadata, payload }) => {
                let first_seen = Duration::from_secs(metadata.initial_timestamp);
                let context = Self {
                    attempt: metadata.ordinal(),
                    first_seen: UNIX_EPOCH.checked_add(first_seen),
                    id: metadata.id.unwrap_or_else(|| request_id.to_owned()),
                };
                (context, Some(payload.get().as_bytes().to_vec()))
            }
            None => {
                let context = Self {
                    id: request_id.to_owned(),
                    ..Self::default()
                };
                (context, None)
            }
        }
    }
}

/// Wraps a service in an [`Unwrap`]: `Runtime::new(handler).layer(UnwrapLayer)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnwrapLayer;

impl<S> Layer<S> for UnwrapLayer {
    type Service = Unwrap<S>;

    fn layer(&self, inner: S) -> Unwrap<S> {
        Unwrap(inner)
    }
}

/// Passes the original payload of each event to the inner service.
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
        let (context, payload) = RetryContext::of(&invocation.body, &invocation.context.request_id);
        if let Some(payload) = payload {
            invocation.body = payload.into();
        }
        // A handler may read the context before its first await too.
        let future = CURRENT.sync_scope(context.clone(), || self.0.call(invocation));
        CURRENT.scope(context, future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The retry handler and the functions in Python and Node.js are tested with the same table.
    #[test]
    fn each_event_of_the_table_is_unwrapped_as_expected() {
        let table = include_str!("../envelopes.json");
        let cases: Vec<Value> = serde_json::from_str(table).unwrap();
        for case in cases {
            let event = case["event"].as_str().unwrap();
            let (found, payload) = RetryContext::of(event.as_bytes(), "this-invocation");
            let envelope = &case["envelope"];
            if envelope.is_null() {
                assert_eq!(
                    (payload, found.attempt.get()),
                    (None, 1),
                    "{}",
                    case["name"]
                );
                assert_eq!(found.first_seen, None);
                continue;
            }
            let payload = payload.map(|payload| String::from_utf8(payload).unwrap());
            assert_eq!(
                payload.as_deref(),
                envelope["payload"].as_str(),
                "{}",
                case["name"]
            );
            let first_seen = Duration::from_secs(envelope["first_seen"].as_u64().unwrap());
            let expected = RetryContext {
                attempt: u32::try_from(envelope["attempt"].as_u64().unwrap())
                    .ok()
                    .and_then(NonZeroU32::new)
                    .unwrap(),
                first_seen: UNIX_EPOCH.checked_add(first_seen),
                id: envelope["id"]
                    .as_str()
                    .unwrap_or("this-invocation")
                    .to_owned(),
            };
            assert_eq!(found, expected, "{}", case["name"]);
        }
    }
}
