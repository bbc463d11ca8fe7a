//! `backstop policy`: what policy authors and operators do with a policy.
//!
//! Each command has a module of its own, with its flags (`Args`) and a `run`. The others hold what several commands share: how a policy is named ([`named_policy`], [`remote`]), loaded ([`sandbox`], [`component`]), tried ([`failure_args`]) and drawn ([`charts`]). How running hosts are reached is in [`crate::hosts`].

mod bench;
mod build;
mod charts;
mod compile;
mod component;
mod failure_args;
mod inspect;
mod keygen;
mod named_policy;
mod new;
mod pass_on;
mod pull;
mod push;
mod reconsider;
mod remote;
pub(crate) mod replay;
mod rollback;
mod run;
mod sandbox;
mod sign;
mod simulate;
mod status;
mod test;
mod verify;

use std::path::Path;

use backstop_core::settings::Settings;
use backstop_engine::Policy;
use clap::{Parser, Subcommand};

use crate::error::Result;

/// Loads and validates a policy by its name, its path or its address, as a host does.
pub(super) fn load(name: &str, settings: &Settings) -> Result<Policy> {
    named_policy::load(&sandbox::cached()?, name, settings)
}

/// The folder of a file.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Words quoted for a shell.
fn quoted(words: impl IntoIterator<Item = String>) -> String {
    let quoted = words.into_iter().map(|word| {
        shlex::try_quote(&word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned())
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Create, build, test, simulate, sign and distribute policies
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Args),
    Build(build::Args),
    Test(Box<test::Args>),
    Run(Box<run::Args>),
    Inspect(inspect::Args),
    Replay(Box<replay::Args>),
    Simulate(Box<simulate::Args>),
    Bench(bench::Args),
    Compile(compile::Args),
    Push(Box<push::Args>),
    Pull(Box<pull::Args>),
    Sign(sign::Args),
    Verify(verify::Args),
    Keygen(keygen::Args),
    Status(status::Args),
    Rollback(rollback::Args),
    Reconsider(reconsider::Args),
}

/// Runs the command. It blocks: call it within the runtime, on a thread that may block.
pub(super) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::New(args) => new::run(args),
        Command::Build(args) => build::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(*args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Push(args) => push::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Sign(args) => sign::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Keygen(args) => keygen::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Rollback(args) => rollback::run(&args),
        Command::Reconsider(args) => reconsider::run(&args),
    }
}
