//! The policy author's workbench: everything between an idea and a policy that hosts load. It needs no queue and no account.
//!
//! Everything here returns values; the command line prints them.
//!
//! | Command | Module |
//! |---|---|
//! | `backstop policy new` | [`create`]: a policy's folder from a template, with its [`Project`] and [`Language`] |
//! | `backstop policy build` | [`build()`]: bindings, the language's toolchain, the component |
//! | `backstop policy test` | [`scenario`]: the author's tests; [`check`]: generated failures and what every policy must pass; both return an [`outcome`] |
//! | `backstop policy export` | [`export`]: a policy as a JavaScript package |
//! | `backstop policy bench` | [`measure`]: time, fuel and memory |
//! | `backstop policy simulate` | [`simulate`]: timetables of retries, contention, and outages |
//! | `backstop policy replay` | [`replay`]: recorded decisions, evaluated again |
//! | `--svg`, `--png` | [`chart`]: the charts of simulations and replays |
//!
//! A [`subject::Subject`] is the policy that all of them evaluate: a component, compiled once, with any settings.

mod bindings;
mod build;
pub mod chart;
pub mod check;
pub mod export;
pub mod measure;
mod project;
pub mod replay;
pub mod simulate;
pub mod subject;
mod template;
mod threads;

pub use backstop_versions::{outcome, preset, scenario};
pub use bindings::BindingsError;
pub use build::{
    BuildError, Built, ComponentError, Installation, Metadata, ToolError, Untested, build,
    end_tools, missing_toolchain,
};
pub use project::{Language, MANIFEST, PolicyName, Project, ProjectError};
pub use template::{NewError, create};
pub use threads::default_threads;
