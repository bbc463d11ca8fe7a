//! An async Rust function as the handler.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use super::Handler;
use backstop_core::failure::Error;
use backstop_queue::Message;

/// See [`function`].
pub struct Function<F>(F);

/// A handler that calls an async function with the message.
///
/// ```
/// use backstop_core::failure::Error;
/// use backstop_handlers::function;
///
/// let handler = function(|message| async move {
///     match message.body.as_ref() {
///         "" => Err(Error::new("EmptyOrder", "there is nothing to do")),
///         _ => Ok(()),
///     }
/// });
/// # let _ = handler;
/// ```
pub fn function<F, W>(work: F) -> Function<F>
where
    F: Fn(Arc<Message>) -> W + Send + Sync,
    W: Future<Output = Result<(), Error>> + Send,
{
    Function(work)
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("function")
    }
}

#[async_trait]
impl<F, W> Handler for Function<F>
where
    F: Fn(Arc<Message>) -> W + Send + Sync,
    W: Future<Output = Result<(), Error>> + Send,
{
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        self.handle_shared(Arc::new(message.clone())).await
    }

    async fn handle_shared(&self, message: Arc<Message>) -> Result<(), Error> {
        (self.0)(message).await
    }
}
