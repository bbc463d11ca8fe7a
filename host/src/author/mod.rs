//! The policy author's workbench: a folder with a policy, from its first file to a component that a host takes. No queue, no account, no source of the host.

mod bindings;
mod build;
mod component;
mod hint;
mod language;
mod project;
mod template;
mod toolchain;

pub use bindings::BindingsError;
pub use build::{BuildError, Built, build};
pub use component::{ComponentError, Metadata};
pub use language::Language;
pub use project::{MANIFEST, PolicyName, Project, ProjectError};
pub use template::{NewError, create};
pub use toolchain::ToolError;
