//! The programs that hosts are: the command, or a program with the workers inside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::backstop::program;
use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use backstop_tests::npm;
use backstop_tests::python::package;
use nix::time::ClockId;
use tempfile::TempDir;
use tokio::process::Command;

use crate::plan::Program;

/// The packages of programs with workers inside, as long as hosts may start.
#[derive(Debug)]
pub(crate) struct Packages {
    python: TempDir,
    node: PathBuf,
}

impl Packages {
    pub(crate) fn build() -> Self {
        Self {
            python: package(),
            node: npm::built("node"),
        }
    }
}

/// The command that starts a host.
pub(crate) fn command(of: Program, packages: &Packages, configuration: &Path) -> Command {
    match of {
        Program::Command => {
            let mut command = Command::new(program("backstop"));
            let arguments = ["run", "--json", "--config"];
            command.args(arguments).arg(configuration);
            command
        }
        Program::Python => {
            let mut command = Command::new(services().join("python/bin/python"));
            command
                .arg(top().join("tests/chaos/program.py"))
                .arg(configuration)
                .arg(offset().to_string())
                .env("PYTHONPATH", packages.python.path())
                .env("BACKSTOP_COMMAND", program("backstop"));
            command
        }
        Program::Node => {
            let mut command = Command::new(services().join("node_modules/.bin/node"));
            command
                .arg(top().join("tests/chaos/program.mjs"))
                .arg(&packages.node)
                .arg(configuration)
                .arg(offset().to_string())
                .env(
                    "BACKSTOP_ADDON",
                    program("backstop").with_file_name("libbackstop_node.so"),
                )
                .env("BACKSTOP_COMMAND", program("backstop"));
            command
        }
    }
}

/// The nanoseconds from the monotonic clock to the time of day.
fn offset() -> u128 {
    let monotonic = Duration::from(ClockId::CLOCK_MONOTONIC.now().unwrap());
    Duration::from_millis(clock::now().0)
        .saturating_sub(monotonic)
        .as_nanos()
}
