//! The handler that a queue's configuration names.

use std::sync::Arc;

use super::QueueFault;
use crate::config::{HandlerConfig, QueueConfig};
use crate::handler::{Exec, Handler, Http, Lambda};
#[cfg(feature = "idempotency")]
use crate::idempotency;
use crate::queue::Connections;

/// The handler of a queue.
pub(super) async fn handler(
    queue: &QueueConfig,
    connections: &Connections,
) -> Result<Arc<dyn Handler>, QueueFault> {
    let attempt_timeout = queue.options.attempt_timeout;
    let handler: Arc<dyn Handler> = match &queue.handler {
        HandlerConfig::Http(http) => Arc::new(Http::new(http, &queue.url, attempt_timeout)?),
        HandlerConfig::Exec(program, arguments) => Arc::new(Exec::new(program, arguments.clone())),
        HandlerConfig::Lambda(function) => Arc::new(Lambda::new(
            connections.sdk().await,
            function,
            attempt_timeout,
        )),
        HandlerConfig::Function(function) => Arc::clone(&function.0),
    };
    #[cfg(feature = "idempotency")]
    if let Some(config) = &queue.idempotency {
        return Ok(idempotency::around(handler, queue, config, connections).await);
    }
    Ok(handler)
}
