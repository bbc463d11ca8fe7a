//! `backstop policy`: what a policy's author and its operator do with a file.

use std::path::{Path, PathBuf};

use anstream::println;
use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};

use crate::policy::{Architecture, Limits, PolicyDigest, Source, compile_ahead};

/// Work on policies
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compile(Compile),
}

/// Compile policies ahead of time, for the Lambda package of another processor
///
/// The code goes into a folder that the package carries as `compiled/`, named by the digest of the policy's file: the handler takes it from there at a cold start in place of compiling. `make lambda` does this for every policy of a package.
#[derive(Debug, Parser)]
struct Compile {
    /// Built-in policies by name, or paths of .wasm and .wat files
    #[arg(required = true, value_name = "NAME|FILE")]
    policies: Vec<String>,

    /// The processor that the code is for
    #[arg(long, value_enum)]
    arch: Arch,

    /// The folder that the code is written to
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Arch {
    /// AWS Graviton
    Arm64,
    /// Intel and AMD
    #[value(name = "x86-64", alias = "x86_64")]
    X86_64,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Compile(compile) => compile.run(),
    }
}

impl Compile {
    fn run(&self) -> anyhow::Result<()> {
        let architecture = match self.arch {
            Arch::Arm64 => Architecture::Arm64,
            Arch::X86_64 => Architecture::X86_64,
        };
        for name in &self.policies {
            let file = Source::parse(name, Path::new(""))?.read()?;
            let limit = Limits::default().component;
            let path =
                compile_ahead(&file, architecture, limit, &self.output).with_context(|| {
                    format!(
                        "can't compile the policy {name} for {}",
                        architecture.name()
                    )
                })?;
            println!(
                "{name} ({}) -> {}",
                PolicyDigest::of(&file).short(),
                path.display()
            );
        }
        Ok(())
    }
}
