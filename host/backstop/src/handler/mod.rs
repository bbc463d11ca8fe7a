//! Handlers do the work for a message, and turn a failed attempt into an [`Error`].

mod error_payload;
mod exec;
mod function;
mod http;
mod lambda;
mod reach;

use async_trait::async_trait;

pub use exec::{Exec, HOST, host_mark};
pub use function::{Function, function};
pub use http::{Http, HttpError};
pub use lambda::Lambda;

use crate::failure::Error;
use crate::queue::Message;

/// Does the work for one message. `Ok` deletes the message; an [`Error`] goes to the policy.
///
/// The future is dropped when the attempt times out. The handler must then stop its work.
#[async_trait]
pub trait Handler: std::fmt::Debug + Send + Sync {
    /// Makes one attempt.
    async fn handle(&self, message: &Message) -> Result<(), Error>;

    /// Checks that the handler can work at all. Called once before the first message.
    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Checks that the worker is reachable now, without giving it work. Called once before the first message.
    async fn is_reachable(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The code of an attempt that timed out.
pub const TIMEOUT: &str = "Timeout";

/// The code of an attempt in which the handler itself panicked.
pub const PANIC: &str = "Panic";
