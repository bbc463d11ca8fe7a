//! A tower layer that does the work of an event once for each key (feature `idempotency`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use backstop_idempotency::{Error, Event, Idempotency, OnceError};
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tower::{Layer, Service};

use crate::layer::RetryContext;

/// Does the work of an event once for each key. It is put around the handler, and [`UnwrapLayer`](crate::UnwrapLayer) around the runtime:
///
/// ```no_run
/// use backstop_envelope::{OnceLayer, UnwrapLayer};
/// use backstop_idempotency::{Idempotency, MemoryStore};
/// use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
/// use serde_json::Value;
/// use tower::Layer;
///
/// async fn charge(order: LambdaEvent<Value>) -> Result<u64, Error> {
///     Ok(order.payload["total"].as_u64().unwrap_or_default())
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::builder(MemoryStore::default(), "charge").key("/order/id").build()?;
///     let handler = OnceLayer::new(idempotency).layer(service_fn(charge));
///     Runtime::new(handler).layer(UnwrapLayer).run().await
/// }
/// ```
///
/// The key is where [`IdempotencyBuilder::key`](backstop_idempotency::IdempotencyBuilder::key) says. Without one, it is the id of the event, the same in all of its attempts. The lease ends with the invocation. A repeat responds with the stored response. An error of the layer has its code as `errorType`, such as `InProgress`, by which the retry handler's policy decides.
pub struct OnceLayer<A> {
    idempotency: Idempotency,
    payload: PhantomData<fn(A)>,
}

impl<A> OnceLayer<A> {
    /// A layer for a handler of events with the payload `A`.
    pub fn new(idempotency: Idempotency) -> Self {
        Self {
            idempotency,
            payload: PhantomData,
        }
    }
}

impl<A> Clone for OnceLayer<A> {
    fn clone(&self) -> Self {
        Self::new(self.idempotency.clone())
    }
}

impl<A> fmt::Debug for OnceLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLayer").field(&self.idempotency).finish()
    }
}

impl<A, S> Layer<S> for OnceLayer<A> {
    type Service = OnceService<A, S>;

    fn layer(&self, inner: S) -> OnceService<A, S> {
        OnceService {
            layer: self.clone(),
            inner,
        }
    }
}

/// A handler whose work is done once for each key. See [`OnceLayer`].
pub struct OnceService<A, S> {
    layer: OnceLayer<A>,
    inner: S,
}

impl<A, S: Clone> Clone for OnceService<A, S> {
    fn clone(&self) -> Self {
        Self {
            layer: self.layer.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<A, S: fmt::Debug> fmt::Debug for OnceService<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OnceService");
        shown.field("layer", &self.layer);
        shown.field("inner", &self.inner).finish()
    }
}

impl<A, S> Service<LambdaEvent<Box<RawValue>>> for OnceService<A, S>
where
    A: DeserializeOwned + Send + 'static,
    S: Service<LambdaEvent<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Serialize + DeserializeOwned + Send + 'static,
    S::Error: Into<Diagnostic> + Send + 'static,
{
    type Response = S::Response;
    type Error = Diagnostic;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Diagnostic>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Diagnostic>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, event: LambdaEvent<Box<RawValue>>) -> Self::Future {
        // The service that is ready, and another one for the next call.
        let inner = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, inner);
        let idempotency = self.layer.idempotency.clone();
        Box::pin(async move {
            let LambdaEvent { payload, context } = event;
            let parsed: A = serde_json::from_str(payload.get()).map_err(invalid)?;
            let deadline = context.deadline();
            let id = RetryContext::current().map(|retry| retry.id);
            let id = id.unwrap_or_else(|| context.request_id.clone());
            let work = move || inner.call(LambdaEvent::new(parsed, context));
            let once = if idempotency.finds_keys() {
                let event = Event::parse(payload.get()).map_err(invalid)?;
                idempotency.once_for(&event, work)
            } else {
                idempotency.once(&id, work)
            };
            match once.deadline(deadline).await {
                Ok(done) => Ok(done.result),
                Err(error) => Err(diagnostic(error)),
            }
        })
    }
}

fn invalid(error: impl fmt::Display) -> Diagnostic {
    Diagnostic {
        error_type: "InvalidEvent".to_owned(),
        error_message: error.to_string(),
    }
}

/// The handler's own error, or the layer's with its code.
fn diagnostic<E: Into<Diagnostic>>(error: OnceError<E>) -> Diagnostic {
    let failure = error.to_failure(|_| Error::default());
    if let OnceError::Work(error) = error {
        return error.into();
    }
    Diagnostic {
        error_type: failure.code,
        error_message: failure.message,
    }
}
