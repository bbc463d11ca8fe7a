//! The sandbox for retry policies: a WebAssembly component and a failure in, an answer out.
//!
//! A [`Sandbox`] is where policies run and what they may use; a [`Component`] is one policy file, compiled and checked; a [`Policy`] is one component, or several that answer together. Each evaluation runs in fresh instances: no data is shared between evaluations of the same policy.
//!
//! ```
//! use std::sync::Arc;
//!
//! use backstop_core::examples::ordinary_failure;
//! use backstop_engine::{Component, Limits, Part, Payload, Policy, Sandbox, builtin, probe};
//!
//! let sandbox = Sandbox::new(Limits::default())?;
//! let file = builtin::bytes("linear").unwrap_or_default();
//! let part = Part {
//!     component: Component::load(&sandbox, "linear", file)?,
//!     settings: [("base", "2s")].into(),
//! };
//! let policy = Policy::single(&sandbox, part);
//! probe::run(&policy)?;
//! let payload = Arc::new(Payload::new(r#"{"order": 7}"#));
//! let evaluation = policy.evaluate(&ordinary_failure(), &payload);
//! println!("{:?}, {} units of fuel", evaluation.answer?.action, evaluation.fuel);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! A module uses only those above it:
//!
//! | module | content |
//! |---|---|
//! | [`builtin`], [`trust`] | the built-in policies, and whose files are trusted |
//! | `limits`, `config` | the limits of a policy, and the WebAssembly features that the engine allows |
//! | `shape`, [`sections`], `encoding` | from a file to the bytes of a component, with limits that are checked before anything else parses it |
//! | `component_error`, `compiler`, `compiled` | from bytes to machine code: in a child process, or compiled before |
//! | `sandbox` | the engine, its pool of instances, and its clock |
//! | `document`, `payload`, `payload_reads` | the parts of a message's body that a policy can read, and those that it has read |
//! | `bindings`, `host`, `wasi` | the functions that a policy can call |
//! | `component`, `instance` | a loaded component, and one instance of it during one decision |
//! | `parts`, `policy`, [`probe`] | a policy, its evaluation, and its validation |

mod bindings;
pub mod builtin;
mod compiled;
mod compiler;
mod component;
mod component_error;
mod config;
mod container;
mod document;
mod encoding;
mod host;
mod instance;
mod interfaces;
mod limits;
mod pace;
mod parts;
mod payload;
mod payload_reads;
mod policy;
pub mod probe;
mod sandbox;
pub mod sections;
mod shape;
pub mod trust;
mod wasi;

pub use backstop_core::policy::{LogLine, NoDigest, PartName, PolicyDigest};
pub use compiled::{Architecture, CompileError, Compiled, compile_ahead};
pub use compiler::{Compiler, Wanted, answer, compiler_process};
pub use component::{CompiledComponent, Component, Prepared};
pub use component_error::{CompilerError, ComponentError};
pub use encoding::{EncodingError, INTERFACES, component as encode};
pub use host::StoppedClock;
pub use instance::{EvaluationError, Phase};
pub use limits::{CompileLimits, Limits};
pub use parts::{Parts, Role};
pub use payload::Payload;
pub use payload_reads::PayloadReads;
pub use policy::{Evaluation, MissingRole, Part, Policy, Session};
pub use probe::ProbeError;
pub use sandbox::{DECISIONS, Sandbox, SandboxError};
pub use shape::{Measure, Shape, ShapeError};
