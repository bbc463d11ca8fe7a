//! A host inside a program of another language: what the modules for Python and Node.js share. They add what only they know: threads and event loops, exceptions and errors.
//!
//! | module | content |
//! |---|---|
//! | [`jobs`] | attempts that wait for the program, and their answers |
//! | [`host`] | a host with workers, from its start to its end |
//! | [`log`] | the host's log lines, for the program's own log |
//! | [`policy`] | one decision |
//! | [`trial`] | workers in virtual time, for their tests |

pub mod host;
pub mod jobs;
pub mod log;
pub mod policy;

pub use backstop_host::trial;

use std::path::PathBuf;

use backstop_engine::Compiler;

/// Has policies compiled in child processes of this program, which is the command of the same release.
pub fn compile_by(program: PathBuf) {
    Compiler::by_program(program);
}
