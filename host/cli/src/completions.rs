//! `backstop completions`: what a shell completes on its command line.

use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use crate::Cli;
use crate::error::Result;
use crate::terminal::println;

const EXAMPLES: &str = "\
Examples:
  backstop completions bash > ~/.local/share/bash-completion/completions/backstop
  backstop completions zsh > ~/.zfunc/_backstop          # a folder of your fpath
  backstop completions fish > ~/.config/fish/completions/backstop.fish";

/// Print what a shell completes: commands and flags
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "backstop", &mut script);
    println!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
