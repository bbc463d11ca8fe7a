//! The environment of a deployed retry handler: what its start would reject, and what it would accept and not do. Pure: makes no requests.

use std::collections::BTreeMap;
use std::path::Path;

use backstop_aws::{queue_identity, queue_region};
use backstop_files::nearest::nearest;

use super::deployment::name_of;
use super::{Findings, Severity};
use crate::config::{Cache, Config, Deployed, unknown_variables, variables};
use crate::lambda::Allowed;
use crate::queue::Description;
use crate::record::Destination;
use crate::text::chain;

use Severity::{Good, Unknown, Warning, Wrong};

/// The folders that a function may write to: its own, and those of file systems.
const WRITABLE: [&str; 2] = ["/tmp", "/mnt"];

/// What is known of a handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Environment<'a> {
    /// The handler's name.
    pub(super) handler: &'a str,
    /// All variables of its environment.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// What its start makes of them.
    pub(super) deployed: &'a Deployed,
    /// Whether the file in its package is known.
    pub(super) has_file: bool,
    /// The queue that its mapping reads from.
    pub(super) retry_queue: Option<&'a Description>,
    /// Functions whose failures go to that queue.
    pub(super) functions: &'a [String],
}

/// Checks all of it.
pub(super) fn check(findings: &mut Findings, environment: &Environment<'_>) {
    let before = findings.found.len();
    for invalid in &environment.deployed.invalid {
        let text = chain(&invalid.error);
        findings.add(Wrong, format!("does not start: {text}"));
    }
    environment.misspelt(findings);
    if let Some(config) = &environment.deployed.config {
        environment.retry_queue(findings, config);
        environment.functions(findings, config);
        writable(findings, config);
    }
    environment.package(findings);
    if findings.found.len() == before {
        let set = environment.variables.keys();
        let set = set.filter(|name| name.starts_with("BACKSTOP")).count();
        let file = if environment.has_file {
            "with those of the file"
        } else {
            "a backstop.toml in its package or a layer is not checked: --config names it here"
        };
        findings.add(
            Good,
            format!("its environment has {set} settings, and all are valid; {file}"),
        );
    }
}

impl Environment<'_> {
    /// Variables that mean nothing, and what was meant.
    fn misspelt(&self, findings: &mut Findings) {
        let unknown = unknown_variables(self.variables.keys().cloned());
        for name in unknown {
            let text = match nearest(&name, variables()) {
                Some(near) => format!("ignores the variable {name}: the setting is {near}"),
                None => format!(
                    "ignores the variable {name}, which is no setting: host/docs/deploy/lambda.md lists them"
                ),
            };
            findings.add(Warning, text);
        }
        let others = self
            .variables
            .keys()
            .filter(|name| !name.starts_with("BACKSTOP"));
        for name in others {
            if let Some(near) = nearest(name, variables()) {
                findings.add(
                    Warning,
                    format!("ignores the variable {name}: the setting is {near}"),
                );
            }
        }
    }

    /// Whether the configured retry queue is that of the mapping.
    fn retry_queue(&self, findings: &mut Findings, config: &Config) {
        let lambda = config.lambda.as_ref();
        let configured = lambda.and_then(|lambda| lambda.retry_queue.as_deref());
        if let (Some(url), Some(queue)) = (configured, self.retry_queue)
            && !is_same(url, &queue.arn)
        {
            findings.add(
                Wrong,
                format!(
                    "BACKSTOP_RETRY_QUEUE_URL is {url}, but the event source mapping reads from {}: set the URL of that queue, or map the other one",
                    queue.arn
                ),
            );
        }
    }

    /// Whether the configured functions are those whose failures arrive.
    fn functions(&self, findings: &mut Findings, config: &Config) {
        let Some(lambda) = &config.lambda else { return };
        if lambda
            .functions
            .iter()
            .any(|it| name_of(it) == name_of(self.handler))
        {
            findings.add(
                Wrong,
                "BACKSTOP_FUNCTIONS names the handler itself: name the functions that it invokes again",
            );
        }
        let Some(queue) = self.retry_queue else {
            return;
        };
        let allowed = Allowed::of(&lambda.functions);
        for function in self.functions {
            if !allowed.allows(function, &queue.arn) {
                findings.add(
                    Wrong,
                    format!(
                        "BACKSTOP_FUNCTIONS does not have {function}: its failures become dead letters without another attempt. Add it"
                    ),
                );
            }
        }
    }

    /// What is in the package, and can't be checked from outside.
    fn package(&self, findings: &mut Findings) {
        let set = |name: &str| {
            let value = self.variables.get(name)?.trim();
            (!value.is_empty()).then_some(value)
        };
        if let Some(file) = set("BACKSTOP_CONFIG").filter(|_| !self.has_file) {
            findings.add(
                Unknown,
                format!("not checked: the file {file} of BACKSTOP_CONFIG is in its package. Name it with --config"),
            );
        }
        if let Some(file) = set("BACKSTOP_ENVELOPE_KEY_FILE") {
            findings.add(
                Unknown,
                format!(
                    "not checked: the file {file} of BACKSTOP_ENVELOPE_KEY_FILE is in its package"
                ),
            );
        }
    }
}

/// Whether the handler can write what it is to write.
fn writable(findings: &mut Findings, config: &Config) {
    let is_writable = |path: &Path| WRITABLE.iter().any(|folder| path.starts_with(folder));
    if let Cache::Folder(folder) = &config.policies.cache
        && !is_writable(folder)
    {
        findings.add(
            Wrong,
            format!(
                "does not start: BACKSTOP_CACHE is {}, and a function can write to /tmp only, or to a file system under /mnt. Set a folder there, or off",
                folder.display()
            ),
        );
    }
    if let Some(Destination::File { path, .. }) = &config.decisions
        && !is_writable(path)
    {
        findings.add(
            Wrong,
            format!(
                "does not start: BACKSTOP_DECISIONS is {}, and a function can write to /tmp only, or to a file system under /mnt. Set stdout",
                path.display()
            ),
        );
    }
}

/// Whether this URL is that of the queue with this ARN. An emulator may call its region what it likes.
fn is_same(url: &str, arn: &str) -> bool {
    let mut parts = arn.split(':').skip(3);
    let (Some(region), Some(account), Some(name)) = (parts.next(), parts.next(), parts.next())
    else {
        return url == arn;
    };
    let is_region = queue_region(url).is_none_or(|of_url| of_url == region);
    is_region && queue_identity(url, true) == format!("{account}/{name}")
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
