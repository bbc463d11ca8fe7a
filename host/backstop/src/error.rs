//! Why a host does not start. Every message names the value and what is expected of it, or what to change.
//!
//! [`RunError`] covers a whole run. [`StartError`] and [`QueueFault`] divide it by cause, for a program that reacts to some of them:
//!
//! ```
//! use backstop::{Backstop, RunError};
//! use backstop::error::{LoadError, QueueFault, StartError};
//!
//! /// Whether the host did not start because of a policy.
//! fn is_of_policy(error: &RunError) -> bool {
//!     match error {
//!         RunError::Start(StartError::Queues(faults)) => faults.iter().any(|(_, fault)| {
//!             matches!(fault, QueueFault::Policy(error) if matches!(**error, LoadError::Policy(_)))
//!         }),
//!         _ => false,
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let host = Backstop::queue("local:orders").policy("./missing.wasm");
//! let error = host.handler(async |_| Ok(())).cache("off").run().await.unwrap_err();
//! assert!(is_of_policy(&error));
//! # }
//! ```

pub use backstop_engine::SandboxError;
pub use backstop_handlers::HttpError;
pub use backstop_host::ExporterError;
pub use backstop_host::admin::{AdminError, TokenError};
pub use backstop_host::assembly::{AssemblyError, LoadError};
pub use backstop_host::config::ConfigError;
pub use backstop_host::consumer::{Fault, Faults};
pub use backstop_host::run::RunError;
pub use backstop_host::service::{QueueFault, StartError};
pub use backstop_queue::{EntryError, QueueError};
pub use backstop_records::RecordError;
pub use backstop_versions::scenario::ScenarioError;
pub use backstop_versions::{KeyError, PolicyError, SourceError, StoreError, WatchError};
