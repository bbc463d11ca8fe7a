//! The `backstop` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    backstop::cli::main()
}
