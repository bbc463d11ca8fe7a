//! Checks the address of the admin interface, without listening on it.

use super::{Finding, Findings, Severity};
use crate::admin::Address;
use crate::config::AdminConfig;
use crate::text::chain;

/// Reports whether a host could serve the admin interface, and who may send requests to it.
pub(super) fn examine(config: &AdminConfig) -> Vec<Finding> {
    let mut findings = Findings::about(format!("admin interface {}", config.address));
    match Address::tokens(config) {
        Ok(tokens) if !tokens.is_empty() => findings.add(Severity::Good, "requests need a token"),
        Ok(_) => findings.add(
            Severity::Good,
            "only this machine reaches it, and each of its users may send requests: a token would prevent that",
        ),
        Err(error) => findings.add(Severity::Wrong, chain(&error)),
    }
    findings.found
}
