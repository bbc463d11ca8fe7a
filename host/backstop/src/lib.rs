#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | To | use |
//! |---|---|
//! | run queues with functions of your own | [`Backstop`] |
//! | run what a `backstop.toml` describes | [`Backstop::from_file`] |
//! | report a failure with a code that the policy classifies | [`Error`], [`failure`] |
//! | write a handler that checks itself at the start | [`handler`] |
//! | test a worker without AWS | `local:NAME` as the URL, [`Backstop::messages`], [`queue`] |
//! | read decision records | [`record`], [`decision`] |
//! | send many entries to a queue or a table (feature `deliver`) | `deliver` |
//! | react to a host that does not start | [`error`] |
//! | compile policies in a child process | [`compiler_process`] |
//!
//! `backstop doctor`, `backstop policy status` and the Lambda retry handler are programs of their own: `host/docs` describes them.
//!
//! # Untrusted policies
//!
//! A program whose `main` starts with [`compiler_process`] compiles policies in a child process with limits on memory and time. Without it, policies are compiled in the program itself, where a malicious file can use up both. Do this if others may change the policy:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     backstop::compiler_process().unwrap_or_else(|| {
//!         // Start the runtime, and await `Backstop::run`.
//!         ExitCode::SUCCESS
//!     })
//! }
//! ```
//!
//! # Tests
//!
//! A queue in memory has the semantics of SQS, and needs neither credentials nor network:
//!
//! ```
//! use backstop::{Backstop, Error};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), backstop::RunError> {
//! let counts = Backstop::queue("local:orders")
//!     .messages(["an order", "an impossible order"])
//!     .handler(|order| async move {
//!         match order.body.as_ref() {
//!             "an order" => Ok(()),
//!             _ => Err(Error::new("ValidationException", "no such article")),
//!         }
//!     })
//!     .cache("off")
//!     .run()
//!     .await?;
//! assert_eq!(counts.to_string(), "orders: 1 succeeded, 0 retried, 1 dead-lettered");
//! # Ok(())
//! # }
//! ```
// So that docs.rs says which feature has an item.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Batches delivered to SQS and DynamoDB, with only the failed entries sent again: the crate `backstop-deliver`.
///
/// ```no_run
/// use backstop::deliver::Delivery;
/// use backstop::deliver::sqs::{Queue, message};
/// use futures_util::stream;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = aws_config::load_from_env().await;
/// let orders = Queue::open(&config, "https://sqs.eu-west-1.amazonaws.com/123456789012/orders").await?;
/// let entries = (0..1_000).map(|number| message(number.to_string()).build());
/// let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
/// let report = Delivery::new(orders).send(stream::iter(entries)).await?;
/// println!("{} undelivered", report.undelivered.len());
/// # Ok(()) }
/// ```
#[cfg(feature = "deliver")]
pub use backstop_deliver as deliver;

pub mod error;
pub mod handler;
pub mod queue;
pub mod record;

pub use backstop_core::idempotency::{OnMissingKey, OnUnknown};
pub use backstop_core::{decision, failure};
pub use backstop_engine::compiler_process;
pub use backstop_host::Backstop;
pub use backstop_host::config::{ConfigError, RecordAttributes, RecordFormat};
pub use backstop_host::consumer::Summary;
pub use backstop_host::run::{RunError, Summaries};
pub use backstop_host::service::StartError;
pub use backstop_settle::hold::HoldMode;
pub use failure::Error;
pub use handler::Handler;
pub use queue::{Connections, Message};
pub use tokio_util::sync::CancellationToken;
