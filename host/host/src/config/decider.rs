//! What decides about the failures of a queue, or of the Lambda retry handler.

use std::path::PathBuf;

use crate::decision::Bounds;
use crate::policy::PolicySpec;

/// What decides about the failures of a queue, or of the Lambda retry handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeciderConfig {
    /// Decides about failures.
    pub policy: PolicySpec,
    /// The scenarios that every version of the policy has to pass.
    pub scenarios: Option<PathBuf>,
    /// The name of the policy that its files must be signed for.
    pub signed_for: Option<String>,
    /// A second policy that is evaluated for comparison only.
    pub shadow: Option<PolicySpec>,
    /// The limits that hold whatever the policy decides. The retry handler always has those on attempts and age.
    pub bounds: Bounds,
}

impl DeciderConfig {
    /// Whether both have the same policy, with the same scenarios to pass and the same name to be signed for.
    pub(crate) fn shares_policy(&self, other: &Self) -> bool {
        self.policy == other.policy
            && self.scenarios == other.scenarios
            && self.signed_for == other.signed_for
    }
}
