//! The queue operations that the consumer needs, and their two implementations: SQS, and a local queue in the host's memory with SQS's semantics.
//!
//! A test shares [`Connections`] with its host, and reads and fills the queues in memory:
//!
//! ```
//! use std::sync::Arc;
//!
//! use backstop::queue::{Outgoing, Queue};
//! use backstop::{Backstop, CancellationToken, Connections};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connections = Arc::new(Connections::default());
//! let orders = connections.local.named("orders");
//! orders.send(&[Outgoing::new("an order")]).await?;
//!
//! let stop = CancellationToken::new();
//! let host = Backstop::queue("local:orders")
//!     .handler(async |_| Ok(()))
//!     .cache("off")
//!     .connections(Arc::clone(&connections));
//! let (ended, ()) = tokio::join!(host.run_until(stop.clone()), async {
//!     orders.emptied().await;
//!     stop.cancel();
//! });
//! assert_eq!(ended?.get("orders").map(|counts| counts.succeeded), Some(1));
//! # Ok(())
//! # }
//! ```

pub use backstop_queue::{
    Attribute, BatchResult, Connections, Description, EntryError, LocalQueue, LocalQueues,
    LocalSettings, Meaning, Message, MessageEnvelope, Outgoing, Queue, QueueError, ReceiptHandle,
    Redrive, TrackedResult, VisibilityTimeout,
};
