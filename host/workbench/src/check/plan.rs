//! The input of the checks.

use backstop_core::failure::Milliseconds;
use backstop_core::settings::Settings;
use backstop_versions::scenario::Scenario;

/// The input of the checks.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The policy's settings.
    pub settings: &'a Settings,
    /// The longest allowed delay, unless the failing service asked for a longer one.
    pub longest_delay: Milliseconds,
    /// The author's scenarios. Generated failures reuse their codes, details, attributes and payloads.
    pub scenarios: &'a [Scenario],
    /// The seed of the generated failures. The same seed, scenarios and policy give the same failures.
    pub seed: u64,
    /// The number of generated failures. Without it, as many as fit into a few seconds.
    pub cases: Option<u32>,
}
