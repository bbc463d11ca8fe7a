//! The flags of `backstop policy test`.

use std::path::PathBuf;

use backstop_core::settings::parse_pair;
use backstop_files::values::parse_number;
use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  Build and test the policy in this folder, and again after every change:
    backstop policy test --watch

  Test a policy's file with the scenarios.toml next to it, and write a report for CI:
    backstop policy test ./mine.wasm --junit report.xml

  Run a single scenario:
    backstop policy test ./mine.wasm --filter \"eight attempts\" --no-checks

Exits with 0 if everything passes, with 7 if something fails, and with 3 if the scenarios can't be read.";

/// Test a policy with your scenarios and with the checks that every policy must pass
///
/// Scenarios are written in TOML: settings, a failure, and the expected class, verdict, reason and delay, for one decision, over a thousand random numbers, or for a sequence of attempts. host/docs/policies/scenarios.md lists every key. In addition, the policy is evaluated with thousands of generated failures: it must not trap, must stay within its limits, must give valid answers, and must give the same answer twice. A failure that it does not handle is minimised and printed as a scenario to keep.
///
/// A folder that has changed is built first. build/NAME.wasm in it is replaced only after all tests have passed, so a host that watches the file never gets a version that fails them.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A built-in policy, the path of a .wasm or .wat file, or a policy's folder (built first if it changed)
    #[arg(value_name = "NAME|FILE|FOLDER", default_value = ".")]
    pub(super) policy: String,

    /// The scenarios [default: scenarios.toml next to the file, or in the folder]
    #[arg(long, value_name = "FILE")]
    pub(super) scenarios: Option<PathBuf>,

    /// A setting of the policy, in addition to those in the scenarios' file; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) settings: Vec<(String, String)>,

    /// Run only the scenarios and checks with this text in their names
    #[arg(long, value_name = "TEXT")]
    pub(super) filter: Option<String>,

    /// Run only the scenarios
    #[arg(long)]
    pub(super) no_checks: bool,

    /// Treat warnings as failures
    #[arg(long)]
    pub(super) strict: bool,

    /// The seed of random numbers and generated failures
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_number::<u64>)]
    pub(super) seed: u64,

    /// The number of generated failures [default: 2000, or as many as fit into three seconds]
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub(super) cases: Option<u32>,

    /// Also write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,

    /// Print one JSON object for each test, and one with the totals
    #[arg(long)]
    pub(super) json: bool,

    /// Run again after every change of the policy or its scenarios, until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,

    /// List the named failures, and run nothing
    #[arg(long)]
    pub(super) presets: bool,
}
