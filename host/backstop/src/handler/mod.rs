//! Handlers do the work for a message, and turn a failed attempt into an [`Error`].
//!
//! An async function is enough for most programs: see [`Backstop::handler`](crate::Backstop::handler). A type of your own can check itself before the first message; a host whose handler fails the check does not start:
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use backstop::{Backstop, Error, Handler, Message};
//!
//! #[derive(Debug)]
//! struct Warehouse {
//!     address: Option<String>,
//! }
//!
//! #[async_trait]
//! impl Handler for Warehouse {
//!     async fn handle(&self, order: &Message) -> Result<(), Error> {
//!         if order.body.is_empty() {
//!             return Err(Error::new("EmptyOrder", "the order has no lines"));
//!         }
//!         Ok(())
//!     }
//!
//!     async fn check(&self) -> Result<(), Error> {
//!         match self.address {
//!             Some(_) => Ok(()),
//!             None => Err(Error::new("NoAddress", "set WAREHOUSE")),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let handler = Arc::new(Warehouse { address: None });
//! let host = Backstop::queue("local:orders").handle_with(handler).cache("off");
//! let error = host.run().await.unwrap_err();
//! assert!(error.to_string().contains("set WAREHOUSE"));
//! # }
//! ```

mod error_payload;
pub(crate) mod exec;
mod function;
mod headers;
pub(crate) mod http;
mod lambda;
mod reach;
mod variables;

use std::sync::Arc;

use async_trait::async_trait;

pub(crate) use exec::Exec;
pub use function::{Function, function};
pub use headers::ContentType;
pub(crate) use http::{Http, HttpError};
pub(crate) use lambda::Lambda;

use crate::failure::Error;
use crate::queue::Message;

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
