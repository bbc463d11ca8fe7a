//! `backstop policy compile`: machine code for the Lambda package of another processor.

use std::path::PathBuf;

use crate::output::println;
use anyhow::Context;
use clap::{Parser, ValueEnum};

use super::source_of;
use backstop::policy::{Architecture, Limits, PolicyDigest, compile_ahead};

/// Compile policies ahead of time, for the Lambda package of another processor
///
/// The code goes into a folder that the package carries as `compiled/`, named by the digest of the policy's file: the handler takes it from there at a cold start in place of compiling. `make lambda` does this for every policy of a package.
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// Built-in policies by name, paths of .wasm and .wat files, or policies' folders
    #[arg(required = true, value_name = "NAME|FILE|FOLDER")]
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

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let architecture = match args.arch {
        Arch::Arm64 => Architecture::Arm64,
        Arch::X86_64 => Architecture::X86_64,
    };
    for name in &args.policies {
        let file = source_of(name)?.read()?;
        let limit = Limits::default().component;
        let path = compile_ahead(&file, architecture, limit, &args.output).with_context(|| {
            format!(
                "can't compile the policy {name} for {}",
                architecture.name()
            )
        })?;
        let digest = PolicyDigest::of(&file).short();
        println!("{name} ({digest}) -> {}", path.display());
    }
    Ok(())
}
