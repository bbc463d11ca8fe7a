//! A campaign of faults: hosts, workers and operators as processes on two emulators, everything that a machine and a network do to them, and a checker that sees what comes of it from outside.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a campaign that can't go on ends, and each disturbance concerns a few places"
)]

mod campaign;
mod checker;
mod configuration;
mod deliveries;
mod disturb;
mod emulators;
mod evidence;
mod files;
mod host;
mod hostile;
mod hosts;
mod life;
mod link;
mod lying;
mod messages;
mod of_messages;
mod operators;
mod plan;
mod producers;
mod programs;
mod report;
mod rules;
mod site;
mod worker;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// What the campaign is asked for.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Settings {
    /// The seed of messages and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How long messages are sent and faults happen, in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,

    /// How many messages are sent
    #[arg(long, default_value_t = 20_000)]
    messages: u32,

    /// How long the queues may take to become empty afterwards, in seconds
    #[arg(long, default_value_t = 300)]
    drain: u64,

    /// The folder of the report, of logs and of what everybody wrote
    #[arg(long)]
    folder: PathBuf,

    /// Faults of hosts or of their surroundings that the checker has to find
    #[arg(long)]
    plant: Vec<lying::Planted>,

    /// No faults: hosts, workers and operators alone
    #[arg(long)]
    calm: bool,
}

#[derive(Debug, Parser)]
enum Command {
    /// A campaign
    Run(Settings),
    /// A worker of the campaign
    Worker(worker::Args),
}

/// Ctrl-C or SIGTERM.
async fn stopped() {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match Command::parse() {
        // What was started ends with this process.
        Command::Run(settings) => tokio::select! {
            code = campaign::run(settings) => code,
            () = stopped() => ExitCode::from(130),
        },
        Command::Worker(args) => worker::run(args).await,
    }
}
