//! The checker: it goes through everything that was seen, and counts for each rule how often it was looked at, was excused and was broken.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::Evidence;
use crate::life;
use crate::rules::{ALL, Rule};

/// What the checker found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) counts: BTreeMap<Rule, Counts>,
    pub(crate) wrong: Vec<Wrong>,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct Counts {
    pub(crate) checked: u64,
    /// Could not be told, because a disturbance allows it.
    pub(crate) excused: u64,
    pub(crate) broken: u64,
}

/// A rule that was broken.
#[derive(Debug, Serialize)]
pub(crate) struct Wrong {
    pub(crate) rule: Rule,
    pub(crate) text: String,
    /// What is known of the message.
    pub(crate) life: Vec<String>,
}

/// Checks everything.
pub(crate) fn check(evidence: &Evidence) -> Found {
    let mut found = Found::default();
    for rule in ALL {
        found.counts.insert(rule, Counts::default());
    }
    let mut checker = Checker { evidence, found };
    for n in evidence.planned.keys() {
        checker.message(*n);
    }
    checker.groups();
    checker.hosts();
    checker.pauses();
    checker.redrives();
    let mut found = checker.found;
    for text in &evidence.wrong {
        found.counts.entry(Rule::Seen).or_default().broken += 1;
        found.wrong.push(Wrong {
            rule: Rule::Seen,
            text: text.clone(),
            life: Vec::new(),
        });
    }
    for wrong in found.wrong.iter().take(20) {
        println!("BROKEN: {:?}: {}", wrong.rule, wrong.text);
        for line in &wrong.life {
            println!("    {line}");
        }
    }
    found
}

pub(crate) struct Checker<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) found: Found,
}

impl Checker<'_> {
    /// Something that has to hold. About message `n`, if there is one.
    pub(crate) fn expect(
        &mut self,
        rule: Rule,
        n: Option<u32>,
        holds: bool,
        is_excused: impl FnOnce() -> bool,
        text: impl FnOnce() -> String,
    ) {
        let is_excused = !holds && is_excused();
        let counts = self.found.counts.entry(rule).or_default();
        counts.checked += 1;
        if holds {
            return;
        }
        if is_excused {
            counts.excused += 1;
            return;
        }
        counts.broken += 1;
        let life = n.map(|n| life::of(self.evidence, n)).unwrap_or_default();
        self.found.wrong.push(Wrong {
            rule,
            text: text(),
            life,
        });
    }
}
