//! Handlers do the work for a message, and turn a failed attempt into an [`Error`]: a function in Rust, a command, an HTTP server, a Lambda function.

mod error_payload;
mod exec;
mod function;
mod headers;
mod http;
mod lambda;
mod reach;
mod trace;
mod variables;

use std::sync::Arc;

use async_trait::async_trait;

pub use exec::{Exec, HOST, TOKEN_VARIABLE, host_mark};
pub use function::{Function, function};
pub use headers::ContentType;
pub use http::{Http, HttpError, HttpOptions};
pub use lambda::Lambda;

use backstop_core::failure::Error;
use backstop_queue::Message;

/// Does the work for one message. `Ok` deletes the message; an [`Error`] goes to the policy.
///
/// The future is dropped when the attempt times out. The handler must then stop its work.
#[async_trait]
pub trait Handler: std::fmt::Debug + Send + Sync {
    /// Makes one attempt. An [unavailable](Error::unavailable) worker has not seen the message: that is no attempt, and the queue is not polled until the worker [is reachable](Self::is_reachable) again.
    async fn handle(&self, message: &Message) -> Result<(), Error>;

    /// Makes one attempt with a message that the handler may keep. Saves [`function`] a copy of the message.
    #[doc(hidden)]
    async fn handle_shared(&self, message: Arc<Message>) -> Result<(), Error> {
        self.handle(&message).await
    }

    /// Whether an error of an attempt says that the worker ended without an answer, as one does that is stopped. If the host is stopped at the same time, that is no attempt.
    #[doc(hidden)]
    fn has_ended(&self, _: &Error) -> bool {
        false
    }

    /// Checks that the handler can work at all. Called once before the first message.
    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Checks that the worker is reachable now, without giving it work. Called before the first message, and again and again while the worker is unavailable.
    async fn is_reachable(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The code of an attempt that timed out.
pub const TIMEOUT: &str = "Timeout";

/// The code of an attempt in which the handler itself panicked.
pub const PANIC: &str = "Panic";
