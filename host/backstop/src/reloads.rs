//! What the update checks of policies found, in the log and in the metrics.

use std::fmt;

use crate::policy::{LivePolicy, Reload};
use crate::telemetry;
use crate::text::chain;

/// What a policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It decides.
    Live,
    /// It is compared with the one that decides.
    Shadow,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "policy",
            Self::Shadow => "shadow",
        })
    }
}

/// Logs and counts the result of an update check.
pub(crate) fn log_reload(role: Role, policy: &LivePolicy, reload: Reload) {
    match reload {
        Reload::Swapped { from, to } => {
            telemetry::swapped(&policy.spec().title());
            tracing::info!(
                from,
                to,
                "a new version of the {role} is active from now on"
            );
        }
        Reload::Refused { kept, cause } => {
            telemetry::refused(&policy.spec().title());
            let cause = chain(&cause);
            tracing::error!(kept, "a new version of a {role} is rejected: {cause}");
        }
        Reload::SourceUnreachable { kept, cause } => {
            let cause = chain(&cause);
            tracing::error!(
                kept,
                "the source of a {role} is unreachable, and is checked again: {cause}"
            );
        }
        Reload::SourceRecovered { kept } => {
            tracing::info!(kept, "the source of the {role} is reachable again");
        }
        Reload::Unchanged => tracing::debug!(policy = policy.current().title(), "no new version"),
    }
}
