//! What the update checks of policies found, in the log and in the metrics.

use backstop_core::text::chain;
use metrics::counter;

use crate::live::{LivePolicy, Reload};

/// The metric that counts activated new versions, by the policy's name.
pub const SWAPS: &str = "backstop_policy_swaps_total";

/// The metric that counts rejected new versions, by the policy's name.
pub const REFUSALS: &str = "backstop_policy_refusals_total";

backstop_core::names! {
    /// What a policy is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Purpose {
        /// It decides.
        Live = "policy",
        /// It is compared with the one that decides.
        Shadow = "shadow",
    }
}

/// Logs and counts the result of an update check.
pub fn log_reload(purpose: Purpose, policy: &LivePolicy, reload: Reload) {
    match reload {
        Reload::Swapped { from, to } => {
            counter!(SWAPS, "policy" => policy.spec().title()).increment(1);
            tracing::info!(
                from,
                to,
                "a new version of the {purpose} is active from now on"
            );
        }
        Reload::Refused { kept, cause } => {
            counter!(REFUSALS, "policy" => policy.spec().title()).increment(1);
            let cause = chain(&cause);
            tracing::error!(kept, "a new version of a {purpose} is rejected: {cause}");
        }
        Reload::SourceUnreachable { kept, cause } => {
            let cause = chain(&cause);
            tracing::error!(
                kept,
                "the source of a {purpose} is unreachable, and is checked again: {cause}"
            );
        }
        Reload::SourceRecovered { kept } => {
            tracing::info!(kept, "the source of the {purpose} is reachable again");
        }
        Reload::Unchanged => tracing::debug!(policy = policy.current().title(), "no new version"),
    }
}
