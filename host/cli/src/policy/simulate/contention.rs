//! The contention simulation: time to completion and number of calls, for each policy and number of clients.

use backstop_core::settings::Settings;
use backstop_workbench::chart::ContentionChart;
use backstop_workbench::simulate::contention::contender::lost_write;
use backstop_workbench::simulate::contention::{Cell, Contender, Network, Sweep};
use backstop_workbench::simulate::{Evaluation, Spread};
use serde_json::json;

use super::args::Args;
use super::configured_policy::ConfiguredPolicy;
use super::timetable::FRESH;
use crate::error::{Exit, Result};
use crate::policy::sandbox;
use crate::terminal::output::Output;
use crate::terminal::style::YELLOW;
use crate::terminal::{Progress, Table, println};

/// The baselines that policies are compared with.
const BASELINES: [&str; 2] = ["none", "exponential"];

/// The algorithms of the published simulation: built-in policies with its settings.
const PUBLISHED: [&str; 3] = [
    "full-jitter:base=10ms,cap=2s",
    "equal-jitter:base=10ms,cap=2s",
    "decorrelated-jitter:base=5ms,cap=2s",
];

pub(super) fn run(args: &Args) -> Result<()> {
    args.charts.check()?;
    let contenders = contenders(args)?;
    let sweep = Sweep {
        clients: args.clients.0.clone(),
        runs: args.runs,
        seed: args.seed,
        network: Network::default(),
    };
    let progress = Progress::steps(sweep.runs_of(contenders.len()), "runs");
    let cells = sweep.run(&contenders, args.threads(), || progress.add(1));
    drop(progress);
    if args.json {
        println!("{}", as_json(&sweep, &contenders, &cells));
    } else if args.csv {
        as_csv(&cells)?;
    } else {
        explain(&sweep, &contenders, &cells);
    }
    let chart = ContentionChart {
        cells: &cells,
        runs: sweep.runs,
    };
    args.charts.write(&chart, !args.json && !args.csv)
}

/// The baselines, then the named policies, or the published algorithms if none is named.
fn contenders(args: &Args) -> Result<Vec<Contender>> {
    if args.policies.is_empty() && !args.settings.is_empty() {
        return Err(Exit::Usage.because("--set needs a policy: name one"));
    }
    let names = || args.policies.iter().map(String::as_str);
    let is_named = |baseline: &&str| {
        names().any(|name| name == *baseline || name.starts_with(&format!("{baseline}:")))
    };
    let baselines = BASELINES.into_iter().filter(|name| !is_named(name));
    let mut policies: Vec<_> = baselines
        .map(|name| ConfiguredPolicy::parse(name, &Settings::new()))
        .collect::<Result<_, _>>()?;
    let published = PUBLISHED.into_iter().filter(|_| args.policies.is_empty());
    for name in names().chain(published) {
        // --set is for policies. A baseline takes only settings after its own name.
        let all = if ConfiguredPolicy::parse(name, &Settings::new())?
            .baseline()
            .is_some()
        {
            Settings::new()
        } else {
            args.settings.clone().into()
        };
        policies.push(ConfiguredPolicy::parse(name, &all)?);
    }
    let sandbox = sandbox::cached()?;
    let payload = args.given.payload()?;
    let mut contenders: Vec<Contender> = Vec::new();
    for configured in policies {
        let label = configured.label();
        if contenders.iter().any(|other| other.label == label) {
            return Err(Exit::Usage.because(format!("{label} is named twice")));
        }
        let (source, attributes) = (args.given.source.clone(), args.given.attributes.clone());
        let example = lost_write(args.given.error(), source, attributes);
        let policy = configured.load(&sandbox)?;
        contenders.push(Contender::new(label, policy, payload.clone(), example));
    }
    Ok(contenders)
}

fn as_json(sweep: &Sweep, contenders: &[Contender], cells: &[Cell]) -> serde_json::Value {
    let policies: Vec<_> = contenders
        .iter()
        .map(|it| {
            json!({"policy": it.label, "parts": it.policy.parts().collect::<Vec<_>>(), "evaluation": it.evaluation})
        })
        .collect();
    json!({"seed": sweep.seed, "runs": sweep.runs, "policies": policies, "cells": cells})
}

fn as_csv(cells: &[Cell]) -> Result<()> {
    let mut lines = csv::Writer::from_writer(Output);
    lines.write_record([
        "policy",
        "clients",
        "time-mean-ms",
        "time-deviation-ms",
        "time-p5-ms",
        "time-p95-ms",
        "calls-mean",
        "calls-deviation",
        "calls-p5",
        "calls-p95",
        "gave-up-mean",
        "broken",
    ])?;
    for cell in cells {
        let spread =
            |of: Spread| [of.mean, of.deviation, of.p5, of.p95].map(|it| format!("{it:.2}"));
        let first = [cell.policy.clone(), cell.clients.to_string()];
        let last = [format!("{:.2}", cell.gave_up), cell.broken.to_string()];
        let values = spread(cell.time).into_iter().chain(spread(cell.calls));
        lines.write_record(first.into_iter().chain(values).chain(last))?;
    }
    Ok(lines.flush()?)
}

fn explain(sweep: &Sweep, contenders: &[Contender], cells: &[Cell]) {
    for (number, contender) in (1..).zip(contenders) {
        println!("{number}  {}", contender.label);
        if contender.evaluation == Evaluation::Fresh {
            println!("   evaluated {FRESH}");
        }
    }
    let runs = sweep.runs;
    println!("\nTime to completion in ms, the mean of {runs} runs ± their standard deviation\n");
    println!("{}", by_clients(sweep, cells, |cell| cell.time));
    println!("\nCalls, the mean of {runs} runs ± their standard deviation\n");
    println!("{}", by_clients(sweep, cells, |cell| cell.calls));
    println!();
    for contender in contenders {
        let own = || cells.iter().filter(|cell| cell.policy == contender.label);
        if let Some(cell) = own().rev().find(|cell| cell.gave_up > 0.0) {
            println!(
                "{} gives up: on average, {2:.1} of {1} clients never commit",
                contender.label, cell.clients, cell.gave_up
            );
        }
        let broken: u64 = own().map(|cell| cell.broken).sum();
        if broken > 0 {
            println!(
                "{YELLOW}{} broke{YELLOW:#}: the fallback made {broken} decisions instead (`backstop policy run` shows why)",
                contender.label
            );
        }
    }
}

/// A table with a row for each number of clients and a column for each contender.
fn by_clients(sweep: &Sweep, cells: &[Cell], value: fn(&Cell) -> Spread) -> String {
    let series: Vec<_> = cells
        .chunk_by(|one, next| one.policy == next.policy)
        .collect();
    let columns = (1..).zip(&series).map(|(number, series)| {
        let label = series.first().map_or("", |cell| cell.policy.as_str());
        let name = label.split(" (").next().unwrap_or(label);
        format!("{number} {name}")
    });
    let headers: Vec<_> = ["clients".to_owned()].into_iter().chain(columns).collect();
    let rows = sweep.clients.iter().enumerate().map(|(row, clients)| {
        let columns = series.iter().map(|series| {
            let deviation = |cell: &Cell| format!("{:.0}", value(cell).deviation);
            let width = series.iter().map(|cell| deviation(cell).len()).max();
            let width = width.unwrap_or_default();
            series.get(row).map_or_else(String::new, |cell| {
                format!("{:.0} ± {:>width$}", value(cell).mean, deviation(cell))
            })
        });
        [clients.to_string()].into_iter().chain(columns).collect()
    });
    let table = Table {
        rows: rows.collect(),
        right: headers.len(),
        flexible: 0..0,
        headers,
    };
    table.fit(None).lines.join("\n")
}
