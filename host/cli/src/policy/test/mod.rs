//! `backstop policy test`: tests a policy with its author's scenarios and with the checks that every policy must pass.
//!
//! [`target`] finds the policy and its scenarios, `backstop_workbench` runs them, and [`printer`] (with [`describe`]) and [`junit`] report the outcomes. [`watch`] runs everything again after each change.

mod args;
mod describe;
mod junit;
mod printer;
mod target;
mod watch;

use backstop_core::clock;
use backstop_engine::Sandbox;
use backstop_versions::Source;
use backstop_workbench::check;
use backstop_workbench::scenario::{self, Suite};
use backstop_workbench::subject::Subject;

use super::{component, sandbox};
use crate::error::{CommandError, Context, Exit, Result};
use crate::terminal::eprintln;
use printer::Printer;
use target::Target;

pub(super) use args::Args;

pub(super) fn run(args: &Args) -> Result<()> {
    if args.presets {
        printer::presets(args.json);
        return Ok(());
    }
    let sandbox = sandbox::cached()?;
    if args.watch {
        return watch::run(args, || test(args, &sandbox));
    }
    test(args, &sandbox)
}

/// Runs everything once and prints the outcomes. A folder that has changed is built first, and hosts get the new component only after its tests have passed.
fn test(args: &Args, sandbox: &Sandbox) -> Result<()> {
    let target = Target::find(&args.policy, args.scenarios.as_deref())?;
    let suite = target.suite()?;
    let Some(project) = target.changed()? else {
        return tested(args, sandbox, &target, &suite, &target.source()?);
    };
    let untested = component::untested(&project)?;
    let source = Source::path(untested.path());
    let result = tested(args, sandbox, &target, &suite, &source);
    if result.is_ok() && args.filter.is_none() {
        untested.release()?;
        return result;
    }
    let why = match &result {
        Ok(()) => ": --filter leaves tests out",
        Err(_) => "",
    };
    let path = project.component();
    if path.exists() {
        eprintln!("{} stays the version before{why}", path.display());
    } else {
        eprintln!("{} is not written{why}", path.display());
    }
    result
}

/// Runs everything for this policy.
fn tested(
    args: &Args,
    sandbox: &Sandbox,
    target: &Target,
    suite: &Suite,
    source: &Source,
) -> Result<()> {
    let started = clock::instant();
    let settings = suite.settings.merge(&args.settings);
    let mut printer = Printer::start(args, suite);
    printer.compiling(source);
    let subject = Subject::load(sandbox, source, &target.name)?;
    printer.title(&subject.title(), target);
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
            printer.outcome(&outcome);
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
            printer.progress(done, of);
        });
        for outcome in &mut checked {
            outcome.passed &= !args.strict || outcome.warnings.is_empty();
            printer.outcome(outcome);
        }
        outcomes.extend(checked);
    }
    if outcomes.is_empty() {
        return Err(nothing_ran(args, target));
    }
    printer.summary(&outcomes, started.elapsed());
    if let Some(path) = &args.junit {
        let took = started.elapsed();
        let unwritable = || format!("can't write the report {}", path.display());
        let report = junit::report(args, suite, &outcomes, took);
        let text = report.to_string().with_context(unwritable)?;
        std::fs::write(path, text).with_context(unwritable)?;
    }
    match outcomes.iter().filter(|outcome| !outcome.passed).count() {
        0 => Ok(()),
        failed => {
            Err(Exit::TestsFailed.because(format!("{failed} of {} tests failed", outcomes.len())))
        }
    }
}

fn nothing_ran(args: &Args, target: &Target) -> CommandError {
    Exit::Usage.because(match (&args.filter, &target.scenarios) {
        (Some(text), _) => format!("no scenario or check has `{text}` in its name"),
        (None, Some(path)) => format!("there are no scenarios in {}", path.display()),
        (None, None) => {
            "there is nothing to run: no scenarios, and --no-checks leaves out the checks"
                .to_owned()
        }
    })
}
