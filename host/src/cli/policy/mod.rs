//! `backstop policy`: what a policy's author and its operator do with a file.

mod bench;
mod build;
mod compile;
mod inspect;
mod new;
mod run;
mod simulate;
mod test;
mod told;

use std::path::Path;

use anyhow::anyhow;
use clap::{Parser, Subcommand};

use crate::config::parse_settings;
use crate::policy::{Broken, Limits, PartSpec, Policy, PolicySpec, Sandbox, Source, builtin};

/// Make, test and measure policies: start one, build it, test it, ask it, simulate it
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
    Simulate(Box<simulate::Args>),
    Bench(bench::Args),
    Compile(compile::Args),
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New(args) => new::run(args),
        Command::Build(args) => build::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(*args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Bench(args) => bench::run(&args),
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
    /// A built-in policy (full-jitter, equal-jitter, linear, decorrelated-jitter), the path of a .wasm or .wat file, or a policy's folder, which is built where it has changed
    #[arg(value_name = "NAME|FILE|FOLDER")]
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
            source: source_of(&self.policy)?,
            settings: self.settings.clone(),
        });
        Ok(spec.load(&sandbox)?)
    }
}

/// What a name means: a built-in policy, a file, or a policy's folder, whose component is built where its sources have changed.
fn source_of(name: &str) -> anyhow::Result<Source> {
    let is_builtin = builtin::names().any(|known| known == name);
    if !is_builtin && Path::new(name).is_dir() {
        return Ok(Source::File(build::component_of(Path::new(name))?));
    }
    Ok(Source::parse(name, Path::new(""))?)
}
