//! The work itself: what is done with a message, and how its failure becomes an [`Error`].

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

/// Does the work for one message. `Ok` deletes the message, an [`Error`] is put before the policy.
///
/// The future is dropped when the attempt's time is over: a handler ends its work when that happens.
#[async_trait]
pub trait Handler: std::fmt::Debug + Send + Sync {
    /// One attempt.
    async fn handle(&self, message: &Message) -> Result<(), Error>;

    /// Whether the handler can work at all, asked once before the first message.
    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it answers now, asked once before the first message, without giving it anything to do.
    async fn answers(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The code of an attempt that took longer than it may.
pub const TIMEOUT: &str = "Timeout";

/// The code of an attempt in which the handler itself panicked.
pub const PANIC: &str = "Panic";
