//! The sandbox for retry policies: a WebAssembly component and a failure in, an answer out.
//!
//! [`Sandbox`] is where policies run and what they may use; [`Component`] is one policy file, compiled and checked; [`Policy`] is one component or several that answer together. Every decision gets fresh instances: no data is shared between two of them.

mod bindings;
pub mod builtin;
mod compiled;
mod compiler;
mod component;
mod digest;
mod document;
mod encoding;
mod host;
mod instance;
mod limits;
mod looked_at;
#[cfg(test)]
mod mutation_tests;
mod parts;
mod payload;
mod policy;
pub mod probe;
mod sandbox;
pub mod sections;
mod shape;
pub mod trust;
mod wasi;

pub use compiled::{Architecture, CompileError, Compiled, compile_ahead};
pub use compiler::{Compiler, CompilerError, Wanted, compiler_process};
pub use component::{CompiledComponent, Component, ComponentError, Prepared};
pub use digest::{NoDigest, PolicyDigest};
pub use encoding::{EncodingError, INTERFACES};
pub use host::{LogLine, StoppedClock};
pub use instance::{EvaluationError, Phase};
pub use limits::{CompileLimits, Limits};
pub use looked_at::LookedAt;
pub use parts::{Parts, Role};
pub use payload::Payload;
pub use policy::{Evaluation, MissingRole, Part, PartName, Policy, Session};
pub use probe::ProbeError;
pub use sandbox::{Sandbox, SandboxError};
pub use shape::{Measure, Shape, ShapeError};
