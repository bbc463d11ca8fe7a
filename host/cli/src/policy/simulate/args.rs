//! The flags of `backstop policy simulate`.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use backstop_core::rate::Rate;
use backstop_core::settings::parse_pair;
use backstop_files::values::{parse_between, parse_number, parse_span};
use backstop_workbench::default_threads;
use clap::Parser;

use crate::policy::charts::Charts;
use crate::policy::failure_args::FailureArgs;

const EXAMPLES: &str = "\
Examples:
  When messages that always fail are retried, with a chart:
    backstop policy simulate full-jitter --set base=30s --set cap=6h --max-attempts 12 --svg retries.svg

  The simulation of the AWS Architecture Blog: five algorithms, 10 to 190 clients:
    backstop policy simulate --contention --svg contention.svg

  Your own policy compared with full jitter and the baselines, quickly:
    backstop policy simulate --contention full-jitter:base=10ms,cap=2s ./mine.wasm --clients 20..=100/20 --runs 20

  What an outage of 40 minutes costs a queue, without and with a breaker:
    backstop policy simulate full-jitter --outage 40m --rate 20/s

host/docs/policies/simulate.md explains how to read the results";

/// Simulate when a policy retries, how it copes with contention, or what an outage costs
///
/// Without --contention and --outage, many messages always fail, each until the policy or a queue limit gives up. With --outage, messages come to a queue at a rate, everything fails for a time, and the same is simulated with a breaker. With --contention, clients compete for one row, with each policy and with two baselines: `none` (no backoff) and `exponential` (no jitter). Without policies, the simulation compares the five algorithms of the published one. The policy itself makes every decision, in its sandbox. The same command gives the same result on every machine.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A built-in policy, or the path of a .wasm or .wat file; with --contention, any number of them, each with optional settings after a colon: full-jitter:base=10ms,cap=2s
    #[arg(value_name = "NAME|FILE", required_unless_present = "contention")]
    pub(super) policies: Vec<String>,

    /// A setting for all named policies, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) settings: Vec<(String, String)>,

    /// Compare policies while clients compete for one row
    #[arg(long)]
    pub(super) contention: bool,

    /// The numbers of clients, such as 50, 10,100 or 10..=190/10 (from 10 to 190 in steps of 10)
    #[arg(
        long,
        value_name = "NUMBERS",
        requires = "contention",
        default_value = "10..=190/10"
    )]
    pub(super) clients: ClientCounts,

    /// The number of runs for each policy and number of clients
    #[arg(long, value_name = "N", requires = "contention", default_value = "100", value_parser = parse_between::<1, 100_000, u32>)]
    pub(super) runs: u32,

    /// Simulate a queue during and after an outage of this duration, without and with a breaker
    #[arg(long, value_name = "DURATION", conflicts_with = "contention", value_parser = parse_outage)]
    pub(super) outage: Option<Duration>,

    /// How many messages come, such as 200/s, 50/m or 10/h
    #[arg(long, value_name = "RATE", requires = "outage", default_value = "10/s")]
    pub(super) rate: Rate,

    /// The maximum number of messages in progress
    #[arg(long, value_name = "N", requires = "outage", default_value = "100", value_parser = parse_between::<1, 100_000, u32>)]
    pub(super) max_in_flight: u32,

    /// The number of messages
    #[arg(long, value_name = "N", conflicts_with_all = ["contention", "outage"], default_value = "2000", value_parser = parse_between::<1, 100_000, u32>)]
    pub(super) messages: u32,

    /// The maximum number of attempts, whatever the policy decides
    #[arg(long, value_name = "N", conflicts_with = "contention", value_parser = parse_number::<NonZeroU32>)]
    pub(super) max_attempts: Option<NonZeroU32>,

    /// The maximum age of a message: older ones are not retried, whatever the policy decides
    #[arg(long, value_name = "DURATION", conflicts_with = "contention", value_parser = parse_span)]
    pub(super) max_age: Option<Duration>,

    /// The retention period of the queue: a message is dead-lettered before the queue drops it
    #[arg(long, value_name = "DURATION", conflicts_with = "contention", value_parser = parse_span, default_value = "14d")]
    pub(super) retention: Duration,

    /// The duration of each attempt [default: 0s, with --outage 200ms]
    #[arg(long, value_name = "DURATION", conflicts_with = "contention", value_parser = parse_span)]
    pub(super) attempt_takes: Option<Duration>,

    #[command(flatten)]
    pub(super) given: FailureArgs,

    /// The seed of all random numbers
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_number::<u64>)]
    pub(super) seed: u64,

    /// The number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_between::<1, 16, u16>)]
    threads: Option<u16>,

    #[command(flatten)]
    pub(super) charts: Charts,

    /// Print the result as JSON
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,

    /// Print the result as CSV
    #[arg(long)]
    pub(super) csv: bool,
}

impl Args {
    /// The number of threads to use.
    pub(super) fn threads(&self) -> usize {
        self.threads.map_or_else(default_threads, usize::from)
    }
}

/// The longest outage that can be simulated.
const LONGEST_OUTAGE: Duration = Duration::from_hours(7 * 24);

/// Reads the duration of an outage.
fn parse_outage(text: &str) -> Result<Duration, String> {
    let outage = parse_span(text).map_err(|error| error.to_string())?;
    let is_valid = (Duration::from_secs(1)..=LONGEST_OUTAGE).contains(&outage);
    is_valid
        .then_some(outage)
        .ok_or_else(|| "expected a duration from 1s to 7d, such as 40m".to_owned())
}

/// Numbers of clients, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCounts(pub(super) Vec<u32>);

/// The most clients that a simulation may have.
const MAX_CLIENTS: u32 = 10_000;

impl FromStr for ClientCounts {
    type Err = String;

    /// Reads numbers and ranges (`10..=190/10`), separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!("expected numbers from 1 to {MAX_CLIENTS}, such as 50, 10,100 or 10..=190/10")
        };
        let number = |text: &str| {
            let number = text.trim().parse().ok();
            number.filter(|number| (1..=MAX_CLIENTS).contains(number))
        };
        let mut counts = Vec::new();
        for part in text.split(',') {
            let range = part.split_once("..=").map(|(from, rest)| {
                let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
                Some((number(from)?, number(to)?, number(step)?))
            });
            match range {
                Some(Some((from, to, step))) if from <= to => {
                    counts.extend((from..=to).step_by(step as usize));
                }
                Some(_) => return Err(malformed()),
                None => counts.push(number(part).ok_or_else(malformed)?),
            }
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(Self(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_are_numbers_and_ranges() {
        let of = |text: &str| text.parse::<ClientCounts>().map(|counts| counts.0);
        assert_eq!(of("50"), Ok(vec![50]));
        assert_eq!(of("100, 10,100"), Ok(vec![10, 100]));
        assert_eq!(of("10..=40/10,1..=3"), Ok(vec![1, 2, 3, 10, 20, 30, 40]));
        assert_eq!(of("10..=190/10").unwrap().len(), 19);
        for invalid in ["", "0", "ten", "9..=1", "1..=9/0", "1..9", "10001", "1..="] {
            assert!(of(invalid).is_err(), "{invalid}");
        }
    }
}
