//! `backstop policy`: what a policy's author and its operator do with a file.

mod compile;
mod inspect;
mod run;
mod test;

use std::path::Path;

use anyhow::anyhow;
use clap::{Parser, Subcommand};

use crate::config::parse_settings;
use crate::policy::{Broken, Limits, PartSpec, Policy, PolicySpec, Sandbox, Source};

/// Work on policies: test one, ask it about a failure, look into its file, compile it
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(Box<test::Args>),
    Run(Box<run::Args>),
    Inspect(inspect::Args),
    Compile(compile::Args),
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(*args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Compile(args) => compile::run(&args),
    }
}

pub(super) use test::TestsFailed;

/// The policy broke on the failure that it was asked about.
#[derive(Debug, thiserror::Error)]
#[error("the policy {0}: a host would let the fallback decide")]
pub(super) struct BrokenPolicy(Broken);

/// A policy and its settings, as flags name them.
#[derive(Debug, Parser)]
struct Named {
    /// A built-in policy (full-jitter, equal-jitter, linear, decorrelated-jitter), or the path of a .wasm or .wat file
    #[arg(value_name = "NAME|FILE")]
    policy: String,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_settings)]
    settings: Vec<(String, String)>,
}

impl Named {
    fn load(&self) -> anyhow::Result<Policy> {
        let sandbox = Sandbox::new(Limits::default())
            .map_err(|error| anyhow!("can't set up the sandbox: {error:#}"))?;
        let spec = PolicySpec::Whole(PartSpec {
            source: Source::parse(&self.policy, Path::new(""))?,
            settings: self.settings.clone(),
        });
        Ok(spec.load(&sandbox)?)
    }
}
