//! Scenarios as a gate: every version of a policy must pass them before it becomes active.

use std::path::Path;
use std::sync::Arc;

use super::{ScenarioError, Suite, run};
use crate::live::Check;
use backstop_core::text::chain;
use backstop_engine::{Policy, PolicyDigest};
use backstop_files::regular_file::{self, WRITTEN};

/// The seed of the numbers that `over` draws, fixed so that the same version passes everywhere.
const SEED: u64 = 0;

/// A check that a version passes all scenarios of this file with its live settings, merged with those of the scenario. The file is read now, to report mistakes at once, and again for each version.
pub fn required(path: &Path) -> Result<Check, ScenarioError> {
    Suite::read(path)?;
    let (path, file) = (path.to_owned(), path.to_owned());
    Ok(Check {
        name: path.display().to_string(),
        digest: Arc::new(move || Some(PolicyDigest::of(&regular_file::read(&file, WRITTEN).ok()?))),
        passes: Arc::new(move |policy: &Policy| {
            let suite = Suite::read(&path).map_err(|error| {
                let error = chain(&error);
                format!("the required scenarios can't be used: {error}")
            })?;
            passes(policy, &suite)
        }),
    })
}

/// Runs all scenarios. The error names the first that fails, and the differences.
fn passes(policy: &Policy, suite: &Suite) -> Result<(), String> {
    for scenario in &suite.scenarios {
        let outcome = run(
            |settings| policy.with_settings(settings),
            &suite.settings,
            scenario,
            SEED,
        );
        if outcome.passed {
            continue;
        }
        let mismatches = outcome.rows.iter().filter(|row| !row.holds);
        let mismatches: Vec<_> = mismatches
            .map(|row| format!("{}: expected {}, got {}", row.what, row.expected, row.got))
            .collect();
        return Err(format!(
            "it fails the scenario `{}` ({}:{}): {}",
            scenario.name,
            suite.path.display(),
            scenario.line,
            mismatches.join("; ")
        ));
    }
    Ok(())
}
