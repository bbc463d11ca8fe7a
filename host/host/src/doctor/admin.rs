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
    if let Some(proxy) = &config.proxy {
        let from = proxy.from.iter().map(ToString::to_string);
        let from = from.collect::<Vec<_>>().join(", ");
        let text = format!(
            "the header `{}` is believed from {from}: nobody else may reach the interface from there, and the proxy has to replace the header",
            proxy.header
        );
        findings.add(Severity::Good, text);
    }
    findings.found
}
