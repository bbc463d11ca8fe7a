//! The `backstop` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    backstop::policy::compiler_process().unwrap_or_else(backstop::cli::main)
}
