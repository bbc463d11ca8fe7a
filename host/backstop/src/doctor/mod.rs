//! Checks a deployment before it runs, and reports what would not work as its operator expects.
//!
//! The queues of a consumer are checked as `backstop run` checks them at its start. For a Lambda retry handler, `observed` collects the deployment's settings from AWS, and `retries` compares them with the known mistakes.

mod admin;
mod holds;
mod observed;
mod rate;
mod retries;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::assembly::{Assembly, LoadError};
#[cfg(feature = "idempotency")]
use crate::config::IdempotencyConfig;
use crate::config::{Config, DeciderConfig, LambdaConfig, QueueConfig};
use crate::consumer;
use crate::policy::{LivePolicy, Location, PolicySpec};
use crate::queue::{Connections, short_name};
use crate::service::{self, Examined, QueueFault};
use crate::text::chain;
#[cfg(feature = "idempotency")]
use backstop_idempotency::TableError;
use holds::Waiting;

pub use holds::{HoldForecast, Scope, Simulate, Waits, Workload};
pub use rate::{InvalidRate, Rate};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
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
    pub verdict: Verdict,
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

    fn add(&mut self, verdict: Verdict, text: impl Into<String>) {
        self.found.push(Finding {
            subject: self.subject.clone(),
            verdict,
            text: text.into(),
            hold: None,
        });
    }

    /// A good finding if the condition is met; otherwise this verdict with this advice.
    fn expect(&mut self, is_met: bool, good: &str, verdict: Verdict, advice: impl Into<String>) {
        if is_met {
            self.add(Verdict::Good, good);
        } else {
            self.add(verdict, advice);
        }
    }
}

/// Checks everything that the configuration names, for this load. Changes nothing.
pub async fn examine(
    config: &Config,
    connections: &Arc<Connections>,
    workload: Workload,
) -> Vec<Finding> {
    let assembly = match Assembly::for_check(config) {
        Ok(assembly) => assembly,
        Err(error) => {
            let mut findings = Findings::about("this machine");
            findings.add(Verdict::Wrong, error.to_string());
            return findings.found;
        }
    };
    let mut found = Vec::new();
    if let Err(too_few) = service::descriptors::check(&config.queues) {
        let mut findings = Findings::about("this machine");
        findings.add(Verdict::Warning, too_few.to_string());
        found.extend(findings.found);
    }
    found.extend(config.admin.iter().flat_map(admin::examine));
    for queue in &config.queues {
        found.extend(examine_queue(queue, &assembly, connections, workload).await);
    }
    if let Some(lambda) = &config.lambda {
        found.extend(examine_lambda(lambda, &assembly, connections, workload).await);
    }
    found
}

async fn examine_queue(
    queue: &QueueConfig,
    assembly: &Assembly,
    connections: &Connections,
    workload: Workload,
) -> Vec<Finding> {
    let mut findings = Findings::about(format!("queue {}", queue.name));
    let Examined {
        faults,
        warnings,
        policy,
        description,
    } = service::examine(queue, assembly, connections).await;
    // Nothing is known about the decisions of a policy that can't be loaded.
    let has_policy = !faults.iter().any(is_policy);
    if faults.is_empty() {
        findings.add(
            Verdict::Good,
            "queue, dead-letter queue, handler and policy match each other",
        );
    }
    for fault in faults {
        findings.add(Verdict::Wrong, chain(&fault));
    }
    for warning in warnings {
        findings.add(Verdict::Warning, warning.to_string());
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
            Verdict::Good,
            format!("the table `{name}` has the keys of idempotency records and deletes expired ones"),
        ),
        Ok(Some(false)) => findings.add(
            Verdict::Warning,
            format!("the table `{name}` keeps expired records: enable its time to live on the attribute `{expiration}`"),
        ),
        Ok(None) => findings.add(
            Verdict::Unknown,
            format!("the table `{name}` may keep expired records: allow dynamodb:DescribeTimeToLive to check it"),
        ),
        Err(TableError::NotDescribed { why, .. }) => findings.add(
            Verdict::Unknown,
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
        Ok(waits) => waiting.report(findings, waits, workload.rate),
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

async fn examine_lambda(
    lambda: &LambdaConfig,
    assembly: &Assembly,
    connections: &Connections,
    workload: Workload,
) -> Vec<Finding> {
    let mut findings = Findings::about("policy");
    let mut valid = None;
    match assembly.policy(&lambda.decider).await {
        Ok(policy) => {
            let title = policy.current().title();
            findings.add(Verdict::Good, format!("{title} {VALID}"));
            discards(&mut findings, &lambda.decider);
            valid = Some(policy);
        }
        Err(error @ LoadError::Scenarios(_)) => findings.add(Verdict::Wrong, chain(&error)),
        Err(error @ LoadError::Policy(_)) => findings.add(
            Verdict::Wrong,
            format!("{}: the fallback would decide instead", chain(&error)),
        ),
    }
    let mut found = findings.found;
    let mut findings = Findings::about("shadow");
    shadow(&mut findings, &lambda.decider, assembly).await;
    found.append(&mut findings.found);
    let Some(url) = &lambda.retry_queue else {
        let mut findings = Findings::about("retry queue");
        findings.add(
            Verdict::Unknown,
            "not configured: set retry-queue in [lambda] (--retry-queue) to check the whole path of a failed event",
        );
        if let Some(policy) = valid {
            let waiting = Waiting::in_retry_queue(lambda.hold, None);
            forecast(&mut findings, &waiting, &lambda.decider, policy, workload).await;
        }
        found.extend(findings.found);
        return found;
    };
    match observed::observe(lambda, url, connections).await {
        Ok(observed) => {
            found.extend(retries::check(&observed, lambda));
            if let Some(policy) = valid {
                let queue = &observed.retry_queue;
                let mut findings =
                    Findings::about(format!("retry queue {}", short_name(&queue.arn)));
                let waiting = Waiting::in_retry_queue(lambda.hold, Some(queue));
                forecast(&mut findings, &waiting, &lambda.decider, policy, workload).await;
                found.extend(findings.found);
            }
        }
        Err(error) => {
            let mut findings = Findings::about(format!("retry queue {}", short_name(url)));
            let fault = consumer::fault("retry queue", url, "sqs:GetQueueAttributes", error);
            findings.add(Verdict::Wrong, chain(&fault));
            found.extend(findings.found);
        }
    }
    found
}

/// What a good finding says about a policy, after its title.
const VALID: &str = "loads, accepts its settings and passes validation";

/// Checks the shadow, if there is one. A host starts even if its shadow can't be loaded.
async fn shadow(findings: &mut Findings, decider: &DeciderConfig, assembly: &Assembly) {
    match assembly.shadow_policy(decider).await {
        None => {}
        Some(Ok(policy)) => {
            let title = policy.current().title();
            findings.add(Verdict::Good, format!("the shadow {title} {VALID}"));
        }
        Some(Err(error)) => findings.add(
            Verdict::Warning,
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
        findings.add(Verdict::Good, text);
    } else {
        findings.add(Verdict::Good, "what the policy discards is dead-lettered");
    }
}
