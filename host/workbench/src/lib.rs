//! The policy author's workbench: what there is between an idea and a policy that decides. No queue, no account, no source of the host.
//!
//! Everything here returns values; the command line renders them.

mod bindings;
mod build;
pub mod chart;
pub mod check;
mod component;
mod hint;
mod language;
pub mod measure;
mod project;
pub mod replay;
pub mod simulate;
mod sources;
pub mod subject;
mod template;
mod threads;
mod toolchain;

pub use backstop_versions::{outcome, preset, scenario};
pub use bindings::BindingsError;
pub use build::{BuildError, Built, build, missing_toolchain};
pub use component::{ComponentError, Metadata};
pub use language::Language;
pub use project::{MANIFEST, PolicyName, Project, ProjectError};
pub use template::{NewError, create};
pub use toolchain::{ToolError, end_tools};
