//! `backstop policy test`: a policy put to its author's scenarios and to the checks that every policy must stand.

mod describe;
mod junit;
mod show;
mod target;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::exit::UsageError;
use backstop::config::parse_pair;
use backstop::policy::Sandbox;
use backstop_core::clock;
use backstop_workbench::check;
use backstop_workbench::outcome::Outcome;
use backstop_workbench::scenario::{self, Suite};
use backstop_workbench::subject::Subject;
use describe::Again;
use show::Shown;
use target::Target;

const EXAMPLES: &str = "\
Examples:
  Build and test the policy in this folder, and again whenever something changes:
    backstop policy test --watch

  A policy's file, with the scenarios.toml beside it and a report for the CI:
    backstop policy test ./mine.wasm --junit report.xml

  One scenario, and nothing else:
    backstop policy test ./mine.wasm --filter \"eight attempts\" --no-checks

Ends with 0 where everything passed, with 7 where something failed, and with 3 where the scenarios can't be read.";

/// Test a policy: your scenarios, and the checks that every policy must stand
///
/// Scenarios are told in TOML: settings, a failure by hand or by name, and what is expected of class, verdict, reason and delay, of one decision, of a thousand random numbers, or of a whole sequence of attempts. host/docs/scenarios.md has every key. Besides, the policy is asked about thousands of generated failures: it must not trap, must end within its limits, must make sense, and must say the same twice. A failure that it does not stand is made as small as it gets, and shown as a scenario to keep.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// A built-in policy, the path of a .wasm or .wat file, or a policy's folder, which is built where it has changed
    #[arg(value_name = "NAME|FILE|FOLDER", default_value = ".")]
    policy: String,

    /// The scenarios [default: scenarios.toml beside the file, or in the folder]
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,

    /// A setting of the policy, on top of those of the scenarios' file; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// Run only what has this text in its name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Run the scenarios alone
    #[arg(long)]
    no_checks: bool,

    /// Take a warning for a failure
    #[arg(long)]
    strict: bool,

    /// What random numbers and generated failures are made of
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// How many failures are generated [default: 2000, or as many as three seconds allow]
    #[arg(long, value_name = "N")]
    cases: Option<u32>,

    /// Write a JUnit report to this file too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Print one JSON object for each test, and one with the counts
    #[arg(long)]
    json: bool,

    /// Run again whenever the policy or its scenarios change, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// List the failures that scenarios can name, and run nothing
    #[arg(long)]
    presets: bool,
}

/// A test failed.
#[derive(Debug, thiserror::Error)]
#[error("{0} of {1} tests failed")]
pub(crate) struct TestsFailed(usize, usize);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.presets {
        show::presets(args.json);
        return Ok(());
    }
    let sandbox = super::sandbox()?;
    if args.watch {
        return watch::run(args, || test(args, &sandbox));
    }
    test(args, &sandbox)
}

/// Runs everything once, and shows it.
fn test(args: &Args, sandbox: &Sandbox) -> anyhow::Result<()> {
    let started = clock::instant();
    let target = Target::find(&args.policy, args.scenarios.as_deref())?;
    let suite = target.suite()?;
    let settings = suite.settings.merge(&args.settings);
    let again = Again {
        policy: &args.policy,
        scenarios: args.scenarios.as_deref(),
        settings: &args.settings,
    };
    let mut shown = Shown::start(args.json, &suite, again);
    let source = target.source()?;
    shown.compiling(&source);
    let subject = Subject::load(sandbox, &source, &target.name)?;
    shown.title(&subject.title(), &target, args.seed);
    let is_wanted = |name: &str| {
        let filter = args.filter.as_deref();
        filter.is_none_or(|text| name.to_lowercase().contains(&text.to_lowercase()))
    };
    let mut outcomes = Vec::new();
    for scenario in &suite.scenarios {
        if is_wanted(&scenario.name) {
            let outcome = scenario::run(
                |settings| subject.policy(settings),
                &settings,
                scenario,
                args.seed,
            );
            shown.outcome(&outcome);
            outcomes.push(outcome);
        }
    }
    if !args.no_checks {
        let plan = check::Plan {
            settings: &settings,
            longest_delay: suite.longest_delay,
            scenarios: &suite.scenarios,
            seed: args.seed,
            cases: args.cases,
        };
        let mut checked = check::run(&subject, &plan, &is_wanted, &mut |done, of| {
            shown.progress(done, of);
        });
        for outcome in &mut checked {
            outcome.passed &= !args.strict || outcome.warnings.is_empty();
            shown.outcome(outcome);
        }
        outcomes.extend(checked);
    }
    if outcomes.is_empty() {
        return Err(nothing_ran(args, &target).into());
    }
    shown.summary(&outcomes, started.elapsed());
    if let Some(path) = &args.junit {
        write_junit(
            path,
            &target.name,
            &suite,
            &outcomes,
            started.elapsed(),
            &again,
        )?;
    }
    match outcomes.iter().filter(|outcome| !outcome.passed).count() {
        0 => Ok(()),
        failed => Err(TestsFailed(failed, outcomes.len()).into()),
    }
}

fn nothing_ran(args: &Args, target: &Target) -> UsageError {
    UsageError(match (&args.filter, &target.scenarios) {
        (Some(text), _) => format!("no scenario and no check has `{text}` in its name"),
        (None, Some(path)) => format!("there is no scenario in {}", path.display()),
        (None, None) => {
            "there is nothing to run: no scenarios, and --no-checks leaves the checks out"
                .to_owned()
        }
    })
}

fn write_junit(
    path: &Path,
    policy: &str,
    suite: &Suite,
    outcomes: &[Outcome],
    took: Duration,
    again: &Again<'_>,
) -> anyhow::Result<()> {
    let wrong = || format!("can't write the report {}", path.display());
    let report = junit::report(policy, suite, outcomes, took, again);
    let text = report.to_string().with_context(wrong)?;
    std::fs::write(path, text).with_context(wrong)
}
