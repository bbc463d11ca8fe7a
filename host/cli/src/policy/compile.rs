//! `backstop policy compile`: machine code for a Lambda package of another processor.

use std::path::PathBuf;

use backstop_engine::{Architecture, Limits, PolicyDigest, compile_ahead};
use clap::{Parser, ValueEnum};

use super::named_policy;
use crate::error::{Context, Result};
use crate::terminal::println;

/// Compile policies ahead of time, for a Lambda package of another processor
///
/// The package carries the folder as `compiled/`; each file is named by the digest of its policy. At a cold start, the handler loads the code from there and compiles nothing. `make lambda` runs this command for every policy of a package.
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// Built-in policies by name, paths of .wasm and .wat files, or policies' folders
    #[arg(required = true, value_name = "NAME|FILE|FOLDER")]
    policies: Vec<String>,

    /// The target processor
    #[arg(long, value_enum)]
    arch: Arch,

    /// The folder to write the code to
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

pub(super) fn run(args: &Args) -> Result<()> {
    let architecture = match args.arch {
        Arch::Arm64 => Architecture::Arm64,
        Arch::X86_64 => Architecture::X86_64,
    };
    for name in &args.policies {
        let file = named_policy::source(name)?.read()?;
        let limit = Limits::default().component;
        let path = compile_ahead(&file, architecture, limit, &args.output).with_context(|| {
            format!(
                "can't compile the policy {name} for {}",
                architecture.as_str()
            )
        })?;
        let digest = PolicyDigest::of(&file).short();
        println!("{name} ({digest}) -> {}", path.display());
    }
    Ok(())
}
