//! `doctor`: looks at a deployment before it runs, and says what will not work out as its operator expects.
//!
//! `look` asks AWS, `retries` judges what was seen of a Lambda retry handler against the traps of the pattern; the consumer's queues are judged as `backstop run` does at its start.

mod observed;
mod retries;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{Config, LambdaConfig, QueueConfig};
use crate::consumer;
use crate::decision::Bounds;
use crate::policy::{Catalog, LivePolicy, Location, PolicySpec, Remotes, Sandbox};
use crate::queue::{Connections, short_name};
use crate::service::{self, QueueFault};
use crate::text::chain;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Could not be looked at.
    Unknown,
    /// Works, but not as one may expect.
    Warning,
    /// Will not work, or will lose something.
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: a queue, a function, a mapping, a policy.
    pub subject: String,
    /// How bad it is.
    pub verdict: Verdict,
    /// What was found and, where it is not good, what to change.
    pub text: String,
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
        });
    }

    /// Good if it `holds`, else this bad with this advice.
    fn expect(&mut self, holds: bool, good: &str, verdict: Verdict, advice: impl Into<String>) {
        if holds {
            self.add(Verdict::Good, good);
        } else {
            self.add(verdict, advice);
        }
    }
}

/// Looks at everything that the configuration names. Changes nothing.
pub async fn examine(config: &Config, connections: &Arc<Connections>) -> Vec<Finding> {
    let sandbox = match Sandbox::new(config.limits) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let mut findings = Findings::about("this machine");
            findings.add(Verdict::Wrong, error.to_string());
            return findings.found;
        }
    };
    let endpoint = config.endpoint_url.clone();
    let catalog = Catalog {
        remotes: Remotes::new(endpoint, config.policies.plain_http.clone()),
        keys: config.policies.keys.clone(),
        // Nothing is kept, so that no version of an earlier run stands in for one that is wrong.
        ..Catalog::from(&sandbox)
    };
    let mut found = Vec::new();
    for queue in &config.queues {
        found.extend(examine_queue(queue, &catalog, connections).await);
    }
    if let Some(lambda) = &config.lambda {
        found.extend(examine_lambda(lambda, &catalog, connections).await);
    }
    found
}

async fn examine_queue(
    queue: &QueueConfig,
    catalog: &Catalog,
    connections: &Connections,
) -> Vec<Finding> {
    let mut findings = Findings::about(format!("queue {}", queue.name));
    let (faults, warnings) = service::examine(queue.clone(), catalog, connections).await;
    // Of a policy that can't be had, nobody knows what it does.
    let has_policy = !faults
        .iter()
        .any(|fault| matches!(fault, QueueFault::Policy(_)));
    if faults.is_empty() {
        findings.add(
            Verdict::Good,
            "queue, dead-letter queue, handler and policy fit each other",
        );
    }
    for fault in faults {
        findings.add(Verdict::Wrong, chain(&fault));
    }
    for warning in warnings {
        findings.add(Verdict::Warning, warning.to_string());
    }
    shadow(&mut findings, queue.shadow.clone(), catalog).await;
    if has_policy {
        discards(&mut findings, &queue.policy, queue.bounds);
    }
    findings.found
}

async fn examine_lambda(
    lambda: &LambdaConfig,
    catalog: &Catalog,
    connections: &Connections,
) -> Vec<Finding> {
    let mut found = vec![policy(lambda, catalog).await];
    if found.iter().all(|finding| finding.verdict == Verdict::Good) {
        let mut findings = Findings::about("policy");
        discards(&mut findings, &lambda.policy, lambda.bounds);
        found.append(&mut findings.found);
    }
    let mut findings = Findings::about("shadow");
    shadow(&mut findings, lambda.shadow.clone(), catalog).await;
    found.append(&mut findings.found);
    let Some(url) = &lambda.retry_queue else {
        let mut findings = Findings::about("retry queue");
        findings.add(
            Verdict::Unknown,
            "not named: set retry-queue in [lambda] (--retry-queue), and this looks at the whole way of a failed event",
        );
        found.extend(findings.found);
        return found;
    };
    match observed::at(lambda, url, connections).await {
        Ok(seen) => found.extend(retries::judge(&seen, lambda)),
        Err(error) => {
            let mut findings = Findings::about(format!("retry queue {}", short_name(url)));
            let fault = consumer::fault("retry queue", url, "sqs:GetQueueAttributes", error);
            findings.add(Verdict::Wrong, chain(&fault));
            found.extend(findings.found);
        }
    }
    found
}

/// A shadow that cannot be loaded stops nothing.
async fn shadow(findings: &mut Findings, spec: Option<PolicySpec>, catalog: &Catalog) {
    let Some(spec) = spec else { return };
    let catalog = catalog.clone();
    match service::blocking(move || LivePolicy::checked(catalog, spec, None)).await {
        Ok(policy) => findings.add(
            Verdict::Good,
            format!(
                "the shadow {} loads, takes its settings and stands the probe",
                policy.current().title()
            ),
        ),
        Err(error) => findings.add(
            Verdict::Warning,
            format!("the shadow can't be asked: {}", chain(&error)),
        ),
    }
}

/// A policy that is not one of the host's own may drop messages, unless the operator does not allow it.
fn discards(findings: &mut Findings, policy: &PolicySpec, bounds: Bounds) {
    let judge = match policy {
        PolicySpec::Single(part) => Some(part),
        PolicySpec::Composed(parts) => parts.dead_lettering.as_ref(),
    };
    let Some(judge) = judge else { return };
    if matches!(judge.source.location, Location::Builtin(_)) {
        return;
    }
    if bounds.allow_discard {
        let text = format!(
            "{} may discard messages, which leaves nothing of them: allow-discard = false has them dead-lettered instead",
            judge.source
        );
        findings.add(Verdict::Good, text);
    } else {
        findings.add(Verdict::Good, "what the policy discards is dead-lettered");
    }
}

async fn policy(lambda: &LambdaConfig, catalog: &Catalog) -> Finding {
    let mut findings = Findings::about("policy");
    let check = match service::check(lambda.scenarios.as_deref()) {
        Ok(check) => check,
        Err(error) => {
            findings.add(Verdict::Wrong, chain(&error));
            return findings.found.remove(0);
        }
    };
    let (catalog, spec) = (catalog.clone(), lambda.policy.clone());
    match service::blocking(move || LivePolicy::checked(catalog, spec, check)).await {
        Ok(policy) => findings.add(
            Verdict::Good,
            format!(
                "{} loads, takes its settings and stands the probe",
                policy.current().title()
            ),
        ),
        Err(error) => findings.add(
            Verdict::Wrong,
            format!("{}: the fallback would decide in its place", chain(&error)),
        ),
    }
    findings.found.remove(0)
}
