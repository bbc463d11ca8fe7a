//! `backstop policy simulate`: when a policy's retries come, and what it makes of contention.

mod contention;
mod lane;
mod named;
mod timetable;

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Parser;

use super::charts::Charts;
use super::failure_args::FailureArgs;
use crate::exit::UsageError;
use backstop::config::{parse_number, parse_pair, parse_span};
use contention::Counts;

const EXAMPLES: &str = "\
Examples:
  When the retries of messages come that always fail, with a chart:
    backstop policy simulate full-jitter --set base=30s --set cap=6h --max-attempts 12 --svg retries.svg

  The simulation of the AWS Architecture Blog, its five algorithms over 10 to 190 clients:
    backstop policy simulate --contention --svg contention.svg

  A policy of your own beside full jitter and the baselines, quickly:
    backstop policy simulate --contention full-jitter:base=10ms,cap=2s ./mine.wasm --clients 20..=100/20 --runs 20

How to read both: host/docs/simulate.md";

/// Simulate a policy: when its retries come, or what it makes of contention
///
/// Without --contention: many messages always fail, each until the policy, or a bound of the queue, gives it up. With it: clients compete for one row, under each policy and under two baselines, `none` (no backoff) and `exponential` (no jitter); without policies, the five algorithms of the published simulation. Every decision is made by the policy itself, in its sandbox; the same command gives the same result on every machine.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A built-in policy, or the path of a .wasm or .wat file; with --contention any number, each with settings of its own after a colon: full-jitter:base=10ms,cap=2s
    #[arg(value_name = "NAME|FILE", required_unless_present = "contention")]
    policies: Vec<String>,

    /// A setting of every policy named, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// Let clients compete for one row, and compare policies
    #[arg(long)]
    contention: bool,

    /// Numbers of clients, such as 50, 10,100 or 10..=190/10 (from 10 to 190 in steps of 10)
    #[arg(
        long,
        value_name = "NUMBERS",
        requires = "contention",
        default_value = "10..=190/10"
    )]
    clients: Counts,

    /// Runs for each policy and number of clients
    #[arg(long, value_name = "N", requires = "contention", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,

    /// How many messages fail
    #[arg(long, value_name = "N", conflicts_with = "contention", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    messages: u32,

    /// No message has more attempts, whatever the policy says
    #[arg(long, value_name = "N", conflicts_with = "contention", value_parser = parse_number::<NonZeroU32>)]
    max_attempts: Option<NonZeroU32>,

    /// No message is tried again from this age
    #[arg(long, value_name = "SPAN", conflicts_with = "contention", value_parser = parse_span)]
    max_age: Option<Duration>,

    /// When the queue drops a message: it is dead-lettered before
    #[arg(long, value_name = "SPAN", conflicts_with = "contention", value_parser = parse_span, default_value = "14d")]
    retention: Duration,

    /// How long an attempt takes before it fails
    #[arg(long, value_name = "SPAN", conflicts_with = "contention", value_parser = parse_span, default_value = "0s")]
    attempt_takes: Duration,

    #[command(flatten)]
    told: FailureArgs,

    /// What all randomness is made of: another seed, another sample
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,

    /// How many threads simulate [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    threads: Option<u16>,

    #[command(flatten)]
    charts: Charts,

    /// Print the result as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print the result as CSV
    #[arg(long)]
    csv: bool,
}

/// More threads than this would wait for one another's instances.
const MOST_THREADS: usize = 16;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.contention {
        return contention::run(args);
    }
    match args.policies.as_slice() {
        [policy] => timetable::run(args, policy),
        several => Err(UsageError(format!(
            "a timetable is that of one policy, not of {}: name one, or compare them with --contention",
            several.len()
        ))
        .into()),
    }
}

impl Args {
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from).min(MOST_THREADS)
    }
}
