//! `backstop policy`: what a policy's author and its operator do with a file.

mod bench;
mod build;
mod charts;
mod compile;
mod failure_args;
mod inspect;
mod keygen;
mod new;
mod password;
mod place;
mod progress;
mod pull;
mod push;
mod replay;
mod rollback;
mod run;
mod sign;
mod simulate;
mod table;
mod test;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use backstop::config::{Cache, parse_pair};
use backstop::policy::{
    Compiled, EvaluationError, KeyError, Keys, Limits, PartSpec, Policy, PolicySpec, Sandbox,
    Source, builtin,
};
use backstop_workbench::subject::Subject;

/// Make, test, measure and distribute policies: start one, build it, test it, ask it, simulate it, replay records, sign it, push it
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
    Status(rollback::StatusArgs),
    Rollback(rollback::RollbackArgs),
}

/// Runs it. Blocks: to be called where blocking is allowed, within the runtime.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
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
        Command::Status(args) => rollback::status(&args),
        Command::Rollback(args) => rollback::roll_back(args),
    }
}

pub(super) use replay::Differences;
pub(super) use test::TestsFailed;

/// The policy broke on the failure that it was asked about.
#[derive(Debug, thiserror::Error)]
#[error("the policy {0}: a host would let the fallback decide")]
pub(super) struct BrokenPolicy(EvaluationError);

/// A policy and its settings, as flags name them.
#[derive(Debug, Parser)]
struct Named {
    /// A built-in policy (full-jitter, equal-jitter, linear, decorrelated-jitter), the path of a .wasm or .wat file, a policy's folder, which is built where it has changed, s3://bucket/key or oci://registry/repository:tag
    #[arg(value_name = "NAME|PATH|URL")]
    policy: String,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,
}

impl Named {
    /// The policy as a host loads it.
    fn load(&self) -> anyhow::Result<Policy> {
        let spec = PolicySpec::Single(PartSpec {
            source: source_of(&self.policy)?,
            settings: self.settings.clone().into(),
        });
        Ok(spec.load(&sandbox()?)?)
    }

    /// The policy as it is, whether or not a host would take it.
    fn load_unprobed(&self) -> anyhow::Result<Policy> {
        let subject = Subject::load(&sandbox()?, &source_of(&self.policy)?, &self.policy)?;
        Ok(subject.policy(&self.settings.clone().into()))
    }
}

/// A sandbox with the limits that a host has by default, which compiles whatever it is given.
fn compiling_sandbox() -> anyhow::Result<Sandbox> {
    Ok(Sandbox::new(Limits::default())?)
}

/// The same, with the code that hosts and earlier commands have compiled already.
fn sandbox() -> anyhow::Result<Sandbox> {
    let sandbox = compiling_sandbox()?;
    Ok(sandbox
        .with_compiled(Compiled::default().kept_in(cache().open()?.map(|store| store.code()))))
}

/// Where compiled code is kept: as `BACKSTOP_CACHE` says, or in the user's cache folder.
fn cache() -> Cache {
    std::env::var("BACKSTOP_CACHE").map_or(Cache::User, |cache| Cache::parse(&cache, Path::new("")))
}

/// What a name means: a built-in policy, a file, or a policy's folder, whose component is built where its sources have changed.
fn source_of(name: &str) -> anyhow::Result<Source> {
    match folder_named(name) {
        Some(folder) => Ok(Source::path(build::component_of(&folder)?)),
        None => Ok(Source::parse(name, Path::new(""))?),
    }
}

/// The public keys that flags name; none where no flag does.
fn keys_of(named: &[String]) -> Result<Option<Keys>, KeyError> {
    let is_named = !named.is_empty();
    is_named
        .then(|| Keys::read(named, Path::new("")))
        .transpose()
}

/// The folder that a name means, if it means one.
fn folder_named(name: &str) -> Option<PathBuf> {
    let is_builtin = builtin::names().any(|known| known == name);
    let folder = PathBuf::from(name);
    (!is_builtin && folder.is_dir()).then_some(folder)
}
