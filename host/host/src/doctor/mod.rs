//! Checks a deployment before it runs, and reports what would not work as its operator expects.
//!
//! The queues of a consumer are checked as `backstop run` checks them at its start. For a Lambda retry handler, `lambda` goes from its queue to its functions: `deployment` collects the deployment's settings from AWS, `environment` reads its variables as the handler does, and `retries` compares all of it with the known mistakes.

mod access;
mod admin;
mod classes;
mod deployment;
#[cfg(test)]
mod documented;
mod environment;
mod holds;
mod lambda;
mod queues;
mod retries;
mod traces;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::assembly::{Assembly, LoadError};
#[cfg(feature = "idempotency")]
use crate::config::IdempotencyConfig;
use crate::config::{Config, DeciderConfig, LambdaFlags, QueueConfig};
use crate::policy::{LivePolicy, Location, PolicySpec};
use crate::queue::{Connections, short_name};
use crate::service::{self, Examined, QueueFault, Served};
use crate::text::chain;
#[cfg(feature = "idempotency")]
use backstop_idempotency::TableError;
use holds::Waiting;

pub use holds::{HoldForecast, Scope, Simulate, Waits, Workload};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing to change.
    Good,
    /// Could not be checked.
    Unknown,
    /// Works, but not as an operator may expect.
    Warning,
    /// Will not work, or will lose messages.
    Wrong,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked: a queue, a function, a mapping, a policy.
    pub subject: String,
    /// How bad it is.
    #[serde(rename = "verdict")]
    pub severity: Severity,
    /// What was found and, unless it is good, what to change.
    pub text: String,
    /// The numbers of a finding about how messages wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<HoldForecast>>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

/// Findings about one subject.
struct Findings {
    subject: String,
    found: Vec<Finding>,
}

impl Findings {
    fn about(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            found: Vec::new(),
        }
    }

    fn add(&mut self, severity: Severity, text: impl Into<String>) {
        self.found.push(Finding {
            subject: self.subject.clone(),
            severity,
            text: text.into(),
            hold: None,
        });
    }

    /// A good finding if the condition is met; otherwise this severity with this advice.
    fn expect(&mut self, is_met: bool, good: &str, severity: Severity, advice: impl Into<String>) {
        if is_met {
            self.add(Severity::Good, good);
        } else {
            self.add(severity, advice);
        }
    }
}

/// Where the settings of a Lambda retry handler come from, apart from its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The file, which is taken for that in the handler's package.
    pub file: Option<PathBuf>,
    /// The flags.
    pub flags: LambdaFlags,
}

/// Checks everything that the configuration names, for this load. Changes nothing.
pub async fn examine(
    config: &Config,
    given: &Given,
    connections: &Arc<Connections>,
    workload: Workload,
) -> Vec<Finding> {
    let assembly = match Assembly::for_check(config) {
        Ok(assembly) => assembly,
        Err(error) => {
            let mut findings = Findings::about("this machine");
            findings.add(Severity::Wrong, error.to_string());
            return findings.found;
        }
    };
    let mut found = Vec::new();
    if let Err(too_few) = service::descriptors::check(&config.queues) {
        let mut findings = Findings::about("this machine");
        findings.add(Severity::Warning, too_few.to_string());
        found.extend(findings.found);
    }
    found.extend(config.admin.iter().flat_map(admin::examine));
    found.extend(traces::examine(config.traces).await);
    let mut served = Served::default();
    for queue in &config.queues {
        found.extend(examine_queue(queue, &assembly, connections, &mut served, workload).await);
    }
    if let Some(lambda) = &config.lambda {
        found.extend(lambda::examine(config, lambda, given, connections, workload).await);
    }
    found
}

async fn examine_queue(
    queue: &QueueConfig,
    assembly: &Assembly,
    connections: &Connections,
    served: &mut Served,
    workload: Workload,
) -> Vec<Finding> {
    let mut findings = Findings::about(format!("queue {}", queue.name));
    let Examined {
        mut faults,
        warnings,
        policy,
        description,
        dead_letters,
    } = service::examine(queue, assembly, connections).await;
    if let Some(description) = &description {
        let added = served.add(&queue.name, &queue.url, description);
        faults.extend(added.map(QueueFault::from));
    }
    // Nothing is known about the decisions of a policy that can't be loaded.
    let has_policy = !faults.iter().any(is_policy);
    if faults.is_empty() {
        findings.add(
            Severity::Good,
            "queue, dead-letter queue, handler and policy match each other",
        );
    }
    for fault in faults {
        findings.add(Severity::Wrong, chain(&fault));
    }
    for warning in warnings {
        findings.add(Severity::Warning, warning.to_string());
    }
    classes::check(&mut findings, &queue.dead_letter_queues, &queue.decider);
    if let Some(description) = &description {
        queues::check(&mut findings, description);
    }
    for letters in &dead_letters {
        if let Some((severity, text)) = queues::access(letters) {
            let name = short_name(&letters.arn);
            findings.add(severity, format!("its dead-letter queue {name}: {text}"));
        }
    }
    #[cfg(feature = "idempotency")]
    if let Some(config) = &queue.idempotency {
        table(&mut findings, queue, config, connections).await;
    }
    shadow(&mut findings, &queue.decider, assembly).await;
    if has_policy {
        discards(&mut findings, &queue.decider);
    }
    if let Some((policy, description)) = policy.zip(description) {
        let waiting = Waiting::in_queue(queue.options.hold, &description);
        forecast(&mut findings, &waiting, &queue.decider, policy, workload).await;
    }
    findings.found
}

/// Reports whether the table of idempotent work can hold its records, and whether it deletes them. A table that can't is a fault of the queue's handler.
#[cfg(feature = "idempotency")]
async fn table(
    findings: &mut Findings,
    queue: &QueueConfig,
    config: &IdempotencyConfig,
    connections: &Connections,
) {
    let name = &config.table;
    let expiration = config.attributes.expiration.as_deref();
    let expiration = expiration.unwrap_or("expiration");
    match crate::idempotency::check(queue, config, connections).await {
        Ok(Some(true)) => findings.add(
            Severity::Good,
            format!("the table `{name}` has the keys of idempotency records and deletes expired ones"),
        ),
        Ok(Some(false)) => findings.add(
            Severity::Warning,
            format!("the table `{name}` keeps expired records: enable its time to live on the attribute `{expiration}`"),
        ),
        Ok(None) => findings.add(
            Severity::Unknown,
            format!("the table `{name}` may keep expired records: allow dynamodb:DescribeTimeToLive to check it"),
        ),
        Err(TableError::NotDescribed { why, .. }) => findings.add(
            Severity::Unknown,
            format!("the table `{name}` could not be checked: {why}"),
        ),
        // Reported with the handler.
        Err(_) => {}
    }
}

/// Simulates messages that always fail, and reports how they wait.
async fn forecast(
    findings: &mut Findings,
    waiting: &Waiting,
    decider: &DeciderConfig,
    policy: Arc<LivePolicy>,
    workload: Workload,
) {
    let scope = waiting.scope(&decider.bounds);
    let simulation = move || (workload.simulate)(&policy.current(), &scope);
    match tokio::task::spawn_blocking(simulation).await {
        Ok(waits) => {
            let endless = waiting.endless(&decider.bounds, &waits).map(str::to_owned);
            let tight = waiting.tight(&waits);
            waiting.report(findings, waits, workload.rate);
            for text in endless.into_iter().chain(tight) {
                findings.add(Severity::Warning, text);
            }
        }
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}

/// Whether the fault is in the policy itself, and not in its scenarios.
fn is_policy(fault: &QueueFault) -> bool {
    match fault {
        QueueFault::Policy(error) => matches!(**error, LoadError::Policy(_)),
        QueueFault::Http(_) | QueueFault::Consumer(_) => false,
    }
}

/// What a good finding says about a policy, after its title.
const VALID: &str = "loads, accepts its settings and passes validation";

/// Checks the shadow, if there is one. A host starts even if its shadow can't be loaded.
async fn shadow(findings: &mut Findings, decider: &DeciderConfig, assembly: &Assembly) {
    match assembly.shadow_policy(decider).await {
        None => {}
        Some(Ok(policy)) => {
            let title = policy.current().title();
            findings.add(Severity::Good, format!("the shadow {title} {VALID}"));
        }
        Some(Err(error)) => findings.add(
            Severity::Warning,
            format!("the shadow can't be evaluated: {}", chain(&error)),
        ),
    }
}

/// Reports whether a policy that is not a built-in may discard messages.
fn discards(findings: &mut Findings, decider: &DeciderConfig) {
    let part = match &decider.policy {
        PolicySpec::Single(part) => Some(part),
        PolicySpec::Composed(parts) => parts.dead_lettering.as_ref(),
    };
    let Some(part) = part else { return };
    if matches!(part.source.location, Location::Builtin(_)) {
        return;
    }
    if decider.bounds.allow_discard {
        let text = format!(
            "{} may discard messages, of which no copy is kept: with allow-discard = false they are dead-lettered instead",
            part.source
        );
        findings.add(Severity::Good, text);
    } else {
        findings.add(Severity::Good, "what the policy discards is dead-lettered");
    }
}
