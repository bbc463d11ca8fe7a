//! Handlers do the work for a message, and turn a failed attempt into an [`Error`](crate::Error).
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

pub use backstop_handlers::{
    ContentType, Function, Handler, HttpError, HttpOptions, PANIC, TIMEOUT, function,
};
