//! Many seeds, on all processors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use backstop_core::lock::lock;

use super::checker::{RULES, Rule, check};
use super::plan::{Kind, Plan};
use super::policies::Policies;
use super::run::run;

/// What seeds have shown.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// The seeds whose histories are wrong.
    pub(crate) wrong: Vec<u64>,
    pub(crate) events: usize,
    /// In how many seeds each disturbance was planned.
    planned: BTreeMap<String, u64>,
    /// In how many seeds each rule had to hold, and how often in all.
    asked: BTreeMap<Rule, (u64, u64)>,
}

impl Trial {
    /// Tries these seeds.
    pub(crate) fn of(policies: &Policies, seeds: &Range<u64>) -> Self {
        let (next, trial) = (AtomicU64::new(seeds.start), Mutex::new(Self::default()));
        let try_seeds = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                let plan = Plan::of(seed);
                let history = run(policies, plan.clone(), None);
                let verdict = check(&plan, &history);
                if !verdict.wrong.is_empty() {
                    println!("seed {seed}: {}", verdict.wrong.join("; "));
                }
                let mut trial = lock(&trial);
                if !verdict.wrong.is_empty() {
                    trial.wrong.push(seed);
                }
                trial.events += history.events.len();
                for name in Kind::names() {
                    let is_planned = plan.has(|kind| kind.name() == name);
                    *trial.planned.entry(name).or_default() += u64::from(is_planned);
                }
                for (rule, times) in verdict.asked {
                    let asked = trial.asked.entry(rule).or_default();
                    *asked = (asked.0 + 1, asked.1 + times);
                }
            }
        };
        std::thread::scope(|threads| {
            for _ in 0..std::thread::available_parallelism().unwrap().get() {
                threads.spawn(try_seeds);
            }
        });
        let mut trial = trial.into_inner().unwrap();
        trial.wrong.sort_unstable();
        trial
    }

    /// The disturbances and rules that no seed has exercised.
    pub(crate) fn idle(&self) -> Vec<String> {
        let kinds = Kind::names().filter(|name| self.planned.get(name).is_none_or(|it| *it == 0));
        let rules = RULES.iter().filter(|rule| !self.asked.contains_key(rule));
        kinds.chain(rules.map(|rule| format!("{rule:?}"))).collect()
    }

    /// How much each disturbance and each rule was exercised.
    pub(crate) fn table(&self) -> String {
        let mut text = "| disturbance | seeds |\n|---|---|\n".to_owned();
        for (name, seeds) in &self.planned {
            text += &format!("| {name} | {seeds} |\n");
        }
        text += "\n| rule | seeds | times |\n|---|---|---|\n";
        for rule in RULES {
            let (seeds, times) = self.asked.get(&rule).copied().unwrap_or_default();
            text += &format!("| {rule:?} | {seeds} | {times} |\n");
        }
        text
    }
}
