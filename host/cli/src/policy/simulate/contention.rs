//! The contention simulation, printed: time to completion and calls for each policy and number of clients.

use std::str::FromStr;

use crate::output::{Output, println};
use serde_json::json;

use super::Args;
use super::named::Named;
use super::timetable::FRESH;
use crate::exit::UsageError;
use crate::policy::progress::Progress;
use crate::policy::{sandbox, table};
use backstop_core::settings::Settings;
use backstop_workbench::chart::ContentionChart;
use backstop_workbench::simulate::contention::contender::lost_write;
use backstop_workbench::simulate::contention::{Cell, Contender, Network, Sweep};
use backstop_workbench::simulate::{Evaluation, Spread};

/// The two that policies are compared with.
const BASELINES: [&str; 2] = ["none", "exponential"];

/// The policies of the published simulation, as ours have to be set for it.
const PUBLISHED: [&str; 3] = [
    "full-jitter:base=10ms,cap=2s",
    "equal-jitter:base=10ms,cap=2s",
    "decorrelated-jitter:base=5ms,cap=2s",
];

/// Numbers of clients, rising.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counts(Vec<u32>);

/// No simulation is asked for more clients than this.
const MOST_CLIENTS: u32 = 10_000;

impl FromStr for Counts {
    type Err = String;

    /// Reads numbers and ranges (`10..=190/10`), separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("expected numbers from 1 to {MOST_CLIENTS}, such as 50, 10,100 or 10..=190/10")
        };
        let number = |text: &str| {
            let number = text.trim().parse().ok();
            number.filter(|number| (1..=MOST_CLIENTS).contains(number))
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
                Some(_) => return Err(wrong()),
                None => counts.push(number(part).ok_or_else(wrong)?),
            }
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(Self(counts))
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.charts.check()?;
    let contenders = args.contenders()?;
    let sweep = Sweep {
        clients: args.clients.0.clone(),
        runs: args.runs,
        seed: args.seed,
        network: Network::default(),
    };
    let progress = Progress::start(sweep.runs_of(contenders.len()), "runs");
    let cells = sweep.run(&contenders, args.threads(), || progress.step());
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

impl Args {
    /// The baselines, then what is named; in their place what is published.
    fn contenders(&self) -> anyhow::Result<Vec<Contender>> {
        if self.policies.is_empty() && !self.settings.is_empty() {
            return Err(
                UsageError("--set needs a policy that it sets: name one".to_owned()).into(),
            );
        }
        let theirs = || self.policies.iter().map(String::as_str);
        let is_named = |baseline: &&str| {
            theirs().any(|name| name == *baseline || name.starts_with(&format!("{baseline}:")))
        };
        let baselines = BASELINES.into_iter().filter(|name| !is_named(name));
        let mut named: Vec<_> = baselines
            .map(|name| Named::parse(name, &Settings::new()))
            .collect::<Result<_, _>>()?;
        let published = PUBLISHED.into_iter().filter(|_| self.policies.is_empty());
        for name in theirs().chain(published) {
            // What is set for all is set for policies: a baseline is set by name.
            let all = if Named::parse(name, &Settings::new())?.baseline().is_some() {
                Settings::new()
            } else {
                self.settings.clone().into()
            };
            named.push(Named::parse(name, &all)?);
        }
        let sandbox = sandbox()?;
        let payload = self.told.payload()?;
        let mut contenders: Vec<Contender> = Vec::new();
        for named in named {
            let label = named.label();
            if contenders.iter().any(|other| other.label == label) {
                return Err(UsageError(format!("{label} is named twice")).into());
            }
            let (source, attributes) = (self.told.source.clone(), self.told.attributes.clone());
            let example = lost_write(self.told.error(), source, attributes);
            let policy = named.load(&sandbox)?;
            contenders.push(Contender::new(label, policy, payload.clone(), example));
        }
        Ok(contenders)
    }
}

fn as_json(sweep: &Sweep, contenders: &[Contender], cells: &[Cell]) -> serde_json::Value {
    let policies: Vec<_> = contenders
        .iter()
        .map(|it| {
            json!({"policy": it.label, "parts": it.policy.parts().collect::<Vec<_>>(), "asked": it.asked})
        })
        .collect();
    json!({"seed": sweep.seed, "runs": sweep.runs, "policies": policies, "cells": cells})
}

fn as_csv(cells: &[Cell]) -> anyhow::Result<()> {
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
        if contender.asked == Evaluation::Fresh {
            println!("   asked {FRESH}");
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
                "{} gives up: of {} clients {:.1} on average never commit",
                contender.label, cell.clients, cell.gave_up
            );
        }
        let broken: u64 = own().map(|cell| cell.broken).sum();
        if broken > 0 {
            let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
            println!(
                "{yellow}{} broke{yellow:#}: the fallback made {broken} decisions for it (backstop policy run says why)",
                contender.label
            );
        }
    }
}

/// A row for each number of clients, a column for each contender.
fn by_clients(sweep: &Sweep, cells: &[Cell], value: fn(&Cell) -> Spread) -> String {
    let series: Vec<_> = cells
        .chunk_by(|one, next| one.policy == next.policy)
        .collect();
    let heads = (1..).zip(&series).map(|(number, series)| {
        let label = series.first().map_or("", |cell| cell.policy.as_str());
        let name = label.split(" (").next().unwrap_or(label);
        format!("{number} {name}")
    });
    let heads: Vec<_> = ["clients".to_owned()].into_iter().chain(heads).collect();
    let mut table = table::with_heads(&heads, 0);
    for (row, clients) in sweep.clients.iter().enumerate() {
        let columns = series.iter().map(|series| {
            let deviation = |cell: &Cell| format!("{:.0}", value(cell).deviation);
            let width = series.iter().map(|cell| deviation(cell).len()).max();
            let width = width.unwrap_or_default();
            series.get(row).map_or_else(String::new, |cell| {
                format!("{:.0} ± {:>width$}", value(cell).mean, deviation(cell))
            })
        });
        table.add_row([clients.to_string()].into_iter().chain(columns));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_are_numbers_and_ranges() {
        let of = |text: &str| text.parse::<Counts>().map(|counts| counts.0);
        assert_eq!(of("50"), Ok(vec![50]));
        assert_eq!(of("100, 10,100"), Ok(vec![10, 100]));
        assert_eq!(of("10..=40/10,1..=3"), Ok(vec![1, 2, 3, 10, 20, 30, 40]));
        assert_eq!(of("10..=190/10").unwrap().len(), 19);
        for wrong in ["", "0", "ten", "9..=1", "1..=9/0", "1..9", "10001", "1..="] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
