//! `backstop policy bench`: measures what policies cost, side by side.

use std::time::Duration;

use clap::Parser;
use serde_json::json;

use super::{named_policy, sandbox};
use crate::error::Result;
use crate::terminal::style::YELLOW;
use crate::terminal::{Size, eprintln, println};
use backstop_core::settings::parse_pair;
use backstop_engine::Limits;
use backstop_files::values::parse_span;
use backstop_versions::PolicyError;
use backstop_workbench::measure::{Costs, Spread};
use backstop_workbench::subject::Subject;

const EXAMPLES: &str = "\
Examples:
  backstop policy bench full-jitter ./mine
  backstop policy bench ./mine --for 5s --json";

/// Measure what policies cost: time, fuel and memory for a decision, and time to compile
///
/// Each policy is compiled, validated as a host does, and evaluated with an ordinary failure again and again: in a new instance for each decision, as a host does, and in one reused instance, to show what the instance costs. Fuel and memory are the maximum over the failures of the validation probe. To compare policies, name them in one run.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// Built-in policies by name, paths of .wasm and .wat files, or policies' folders
    #[arg(required = true, value_name = "NAME|FILE|FOLDER")]
    policies: Vec<String>,

    /// A setting for all of them, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// How long to measure each
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_span, default_value = "1s")]
    duration: Duration,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let limits = Limits::default();
    let sandbox = sandbox::compiling()?;
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its times do not apply to a release build");
    }
    let mut measured = Vec::new();
    for name in &args.policies {
        let source = named_policy::source(name)?;
        let subject = Subject::load(&sandbox, &source, name)?;
        let costs = Costs::measure(&subject, &args.settings.clone().into(), args.duration)
            .map_err(|cause| PolicyError::Probe {
                name: subject.title(),
                cause,
            })?;
        measured.push((name, costs));
    }
    if args.json {
        let all: Vec<_> = measured
            .iter()
            .map(|(name, costs)| as_json(name, costs, &limits))
            .collect();
        println!("{}", json!(all));
        return Ok(());
    }
    let width = measured.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or_default().max("policy".len());
    println!(
        "{:<width$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}",
        "policy", "fresh", "fresh p99", "live", "compiling", "fuel", "memory"
    );
    for (name, costs) in &measured {
        println!(
            "{name:<width$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}",
            shown(costs.fresh.median),
            shown(costs.fresh.p99),
            shown(costs.live.median),
            shown(costs.compiling),
            costs.fuel,
            Size(costs.memory).to_string(),
        );
    }
    println!();
    println!(
        "fresh: a decision in a new instance, as a host makes it; live: a decision in a reused instance; both are medians"
    );
    println!(
        "limits: {} fuel and {} for each decision",
        limits.fuel,
        Size(limits.memory)
    );
    for (name, costs) in &measured {
        for (limit, share) in costs.near(&limits) {
            eprintln!(
                "{YELLOW}warning:{YELLOW:#} {name} uses {:.0} % of the {limit} limit: a larger payload or the next version may exceed it",
                share * 100.0
            );
        }
    }
    Ok(())
}

fn as_json(name: &str, costs: &Costs, limits: &Limits) -> serde_json::Value {
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let spread = |it: Spread| json!({"median-us": microseconds(it.median), "p99-us": microseconds(it.p99), "times": it.times});
    json!({
        "policy": name,
        "fresh": spread(costs.fresh),
        "live": spread(costs.live),
        "compiling-us": microseconds(costs.compiling),
        "fuel": costs.fuel,
        "memory": costs.memory,
        "limits": {"fuel": limits.fuel, "memory": limits.memory},
        "near": costs.near(limits).iter().map(|(limit, _)| *limit).collect::<Vec<_>>(),
    })
}

/// A time with about three digits, in the unit that fits.
fn shown(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    match microseconds {
        ..1_000.0 => format!("{microseconds:.1} µs"),
        1_000.0..1_000_000.0 => format!("{:.1} ms", microseconds / 1e3),
        _ => format!("{:.1} s", microseconds / 1e6),
    }
}
