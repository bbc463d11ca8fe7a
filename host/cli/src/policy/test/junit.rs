//! A JUnit report of the tests, for CI systems.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use backstop_core::text::one_line;
use backstop_workbench::outcome::{Kind, Outcome};
use backstop_workbench::scenario::Suite;

use super::args::Args;
use super::describe::lines;

/// One suite for the scenarios and one for the checks.
pub(super) fn report(args: &Args, suite: &Suite, outcomes: &[Outcome], took: Duration) -> Report {
    let mut report = Report::new("backstop policy test");
    report.set_time(took);
    for (kind, name) in [(Kind::Scenario, "scenarios"), (Kind::Check, "checks")] {
        let of_kind: Vec<_> = outcomes.iter().filter(|it| it.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let mut tests = TestSuite::new(format!("{} {name}", args.policy));
        tests.set_time(of_kind.iter().map(|outcome| outcome.took).sum());
        let cases = of_kind.iter().map(|outcome| case(args, suite, outcome));
        tests.add_test_cases(cases);
        report.add_test_suite(tests);
    }
    report
}

fn case(args: &Args, suite: &Suite, outcome: &Outcome) -> TestCase {
    let status = if outcome.passed {
        TestCaseStatus::success()
    } else {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status
            .set_message(message(outcome))
            .set_description(lines(outcome, args).join("\n"));
        status
    };
    let mut case = TestCase::new(outcome.name.as_str(), status);
    case.set_classname(&args.policy).set_time(outcome.took);
    if let Some(line) = outcome.line {
        let file = suite.path.display().to_string();
        case.extra.insert("file".into(), file.into());
        case.extra.insert("line".into(), line.to_string().into());
    }
    if !outcome.warnings.is_empty() {
        case.set_system_out(outcome.warnings.join("\n"));
    }
    case
}

/// The comparisons that do not hold, on one line.
fn message(outcome: &Outcome) -> String {
    let failed = outcome.rows.iter().filter(|row| !row.holds);
    let texts = failed.map(|row| {
        let row = format!("{}: expected {}, got {}", row.what, row.expected, row.got);
        one_line(&row)
    });
    texts.collect::<Vec<_>>().join("; ")
}
