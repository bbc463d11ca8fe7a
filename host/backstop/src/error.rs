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

pub use crate::admin::{AdminError, TokenError};
pub use crate::assembly::{AssemblyError, LoadError};
pub use crate::config::ConfigError;
pub use crate::consumer::{Fault, Faults};
pub use crate::exporter::ExporterError;
pub use crate::handler::HttpError;
pub use crate::policy::{KeyError, PolicyError, SandboxError, SourceError, StoreError, WatchError};
pub use crate::queue::{EntryError, QueueError};
pub use crate::run::RunError;
pub use crate::service::{QueueFault, StartError};
pub use backstop_records::RecordError;
pub use backstop_versions::scenario::ScenarioError;
