//! Compiles one file, in either process.

use wasmtime::Engine;

use crate::component_error::ComponentError;
use crate::config::config;
use crate::encoding;
use crate::interfaces;
use crate::limits::CompileLimits;

/// Whether the file that is being compiled is still needed. Called many times a second while a child process compiles it.
pub type Wanted<'a> = &'a dyn Fn() -> bool;

/// A file to be compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a [u8],
    /// See [`Limits::component`](crate::Limits::component).
    pub(crate) most: usize,
    /// The limits of a child.
    pub(crate) limits: CompileLimits,
    /// The processor and system that the code is for, if it is another one.
    pub(crate) target: Option<&'a str>,
}

/// Compiles a policy's file to machine code, in this process.
pub(super) fn compile(
    file: &[u8],
    most: usize,
    target: Option<&str>,
) -> Result<Vec<u8>, ComponentError> {
    let bytes = encoding::component(file, most)?;
    interfaces::check(&bytes)?;
    let mut config = config(None);
    if let Some(target) = target {
        config.target(target).map_err(ComponentError::compile)?;
    }
    Engine::new(&config)
        .and_then(|engine| engine.precompile_component(&bytes))
        .map_err(ComponentError::compile)
}
