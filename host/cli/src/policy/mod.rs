//! `backstop policy`: what policy authors and operators do with a policy.
//!
//! Each command has a module of its own, with its flags (`Args`) and a `run`. The others hold what several commands share: how a policy is named ([`named_policy`], [`remote`]), loaded ([`sandbox`], [`component`]), tried ([`failure_args`]) and drawn ([`charts`]). How running hosts are reached is in [`crate::hosts`].

mod bench;
mod build;
mod charts;
mod compile;
mod component;
mod export;
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
use clap::Parser;

use crate::commands::commands;
use crate::error::Result;

pub(super) use named_policy::policy_help;

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

commands! {
    New = on_a_thread new;
    Build = on_a_thread build;
    Test = on_a_thread test;
    Run = on_a_thread run;
    Inspect = on_a_thread inspect;
    Replay = on_a_thread replay;
    Simulate = on_a_thread simulate;
    Bench = on_a_thread bench;
    Compile = on_a_thread compile;
    Export = on_a_thread export;
    Push = on_a_thread push;
    Pull = on_a_thread pull;
    Sign = on_a_thread sign;
    Verify = on_a_thread verify;
    Keygen = on_a_thread keygen;
    Status = on_a_thread status;
    Rollback = on_a_thread rollback;
    Reconsider = on_a_thread reconsider;
}

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<()> {
    args.command.run().await
}
