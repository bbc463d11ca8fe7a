//! The checks of a Lambda retry handler, from its queue to the functions that it invokes again, with the settings that it was deployed with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::deployment::{Deployment, DeploymentReader, Function, name_of};
use super::environment::{self, Environment};
use super::holds::Waiting;
use super::{
    Finding, Findings, Given, Severity, VALID, Workload, classes, discards, forecast, retries,
    shadow,
};
use crate::assembly::{Assembly, LoadError};
use crate::config::{Config, DeciderConfig, Deployed, LambdaConfig};
use crate::consumer;
use crate::policy::{LivePolicy, Location, PolicySpec};
use crate::queue::{Connections, Description, short_name};
use crate::text::chain;

/// Checks the handler of a configuration.
pub(super) async fn examine(
    config: &Config,
    lambda: &LambdaConfig,
    given: &Given,
    connections: &Connections,
    workload: Workload,
) -> Vec<Finding> {
    let is_named = lambda.retry_queue.is_some()
        || lambda.handler.is_some()
        || !given.flags.functions.is_empty();
    if !is_named {
        let mut found = Vec::new();
        let policy = decides(&mut found, config, lambda).await;
        let mut findings = Findings::about("retry queue");
        findings.add(
            Severity::Unknown,
            "not configured: set retry-queue in [lambda] (--retry-queue), or name the handler (--function), to check the whole path of a failed event",
        );
        if let Some(policy) = policy {
            let waiting = Waiting::in_retry_queue(lambda.hold, None);
            forecast(&mut findings, &waiting, &lambda.decider, policy, workload).await;
        }
        found.extend(findings.found);
        return found;
    }
    let reader = DeploymentReader::new(connections).await;
    let mut functions = Vec::new();
    for name in &given.flags.functions {
        functions.push(reader.function(name).await);
    }
    let (mut handlers, mut functions): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(Function::is_handler);
    let mut found = Vec::new();
    let mut handler = match &lambda.handler {
        Some(name) => Some(reader.function(name).await),
        None if handlers.is_empty() => None,
        None => Some(handlers.remove(0)),
    };
    for other in handlers {
        let mut findings = Findings::about(format!("handler {}", name_of(&other.name)));
        findings.add(
            Severity::Unknown,
            "not checked: one handler at a time is. Name it with --function alone",
        );
        found.extend(findings.found);
    }
    let to = Leads {
        configured: lambda.retry_queue.as_ref(),
        handler: handler.as_ref(),
        functions: &functions,
    };
    let queue = retry_queue(&mut found, &reader, &to, connections).await;
    let mut mappings = Ok(Vec::new());
    if let Some(queue) = &queue {
        mappings = reader.mappings(&queue.arn).await;
        let of_mapping = mappings.as_ref().ok().and_then(|found| found.first());
        if let (None, Some(mapping)) = (&handler, of_mapping) {
            let named = functions
                .iter()
                .position(|it| it.is_named(&mapping.function));
            handler = Some(match named {
                Some(position) => functions.remove(position),
                None => reader.function(&mapping.function).await,
            });
        }
    }
    let deployed = handler.as_ref().and_then(|handler| {
        let deployed = Config::of_deployed(given.file.as_deref(), &start(handler)?);
        Some(deployed)
    });
    let names: Vec<_> = functions.iter().map(|it| it.name.clone()).collect();
    // The settings of the deployed handler, or else those that were given.
    let effective = deployed.as_ref().and_then(|it| it.config.as_ref());
    let (config, lambda) = match effective.and_then(|it| Some((it, it.lambda.as_ref()?))) {
        Some((deployed, of_handler)) => (deployed, given.over(of_handler)),
        None => (config, lambda.clone()),
    };
    for name in &lambda.functions {
        let mut known = functions.iter().chain(&handler);
        if !known.any(|it| it.is_named(name)) {
            functions.push(reader.function(name).await);
        }
    }
    let policy = policy(&mut found, config, &lambda, given, deployed.as_ref()).await;
    if let Some(handler) = &handler {
        let environment = Handler {
            handler,
            deployed: deployed.as_ref(),
            retry_queue: queue.as_ref(),
            functions: &names,
        };
        environment.check(&mut found, given);
    }
    let Some(retry_queue) = queue else {
        found.extend(handler.iter().chain(&functions).map(retries::alone));
        return found;
    };
    let (dead_letters, class_dead_letters) = reader.dead_letters(&lambda, &retry_queue).await;
    let deployment = Deployment {
        retry_queue,
        dead_letters,
        class_dead_letters,
        mappings,
        handler,
        functions,
    };
    found.extend(retries::check(&deployment, &lambda));
    let queue = &deployment.retry_queue;
    let mut findings = Findings::about(format!("retry queue {}", short_name(&queue.arn)));
    classes::check(&mut findings, &lambda.dead_letter_queues, &lambda.decider);
    if let Some(policy) = policy {
        let waiting = Waiting::in_retry_queue(lambda.hold, Some(queue));
        forecast(&mut findings, &waiting, &lambda.decider, policy, workload).await;
    }
    found.extend(findings.found);
    found
}

/// What leads to the retry queue.
struct Leads<'a> {
    configured: Option<&'a String>,
    handler: Option<&'a Function>,
    functions: &'a [Function],
}

/// The retry queue: the configured one, that of the handler's mapping or of its environment, or the one to which a function sends its failures.
async fn retry_queue(
    found: &mut Vec<Finding>,
    reader: &DeploymentReader<'_>,
    leads: &Leads<'_>,
    connections: &Connections,
) -> Option<Description> {
    let mut mapped = Vec::new();
    let mut findings = Findings::about("retry queue");
    if let (None, Some(handler)) = (leads.configured, leads.handler) {
        match reader.queues_of(&handler.name).await {
            Ok(queues) => mapped = queues,
            Err(reason) => findings.add(
                Severity::Unknown,
                format!("not checked: {reason}. Allow lambda:ListEventSourceMappings"),
            ),
        }
    }
    for other in mapped.iter().skip(1) {
        findings.add(
            Severity::Unknown,
            format!("not checked: the handler reads from {other} too. Name it with --retry-queue"),
        );
    }
    let variables = leads.handler.and_then(Function::variables);
    let of_environment = variables.and_then(|them| them.get("BACKSTOP_RETRY_QUEUE_URL"));
    let by_arn = mapped.first().cloned().or_else(|| {
        let destinations = leads.functions.iter().filter_map(Function::failures_go_to);
        destinations.map(str::to_owned).next()
    });
    let (name, queue) = match (leads.configured.or(of_environment), &by_arn) {
        (Some(url), None) => (url, Ok(connections.by_url(url).await)),
        (Some(url), Some(_)) if leads.configured.is_some() => {
            (url, Ok(connections.by_url(url).await))
        }
        (_, Some(arn)) => (arn, connections.by_arn(arn).await),
        (None, None) => {
            findings.add(
                Severity::Unknown,
                "not known: no event source mapping and no on-failure destination leads to it. Name it with --retry-queue",
            );
            found.append(&mut findings.found);
            return None;
        }
    };
    let described = match queue {
        Ok(queue) => queue.describe().await,
        Err(error) => Err(error),
    };
    let described = match described {
        Ok(described) => Some(described),
        Err(error) => {
            findings.subject = format!("retry queue {}", short_name(name));
            let fault = consumer::fault("retry queue", name, "sqs:GetQueueAttributes", error);
            findings.add(Severity::Wrong, chain(&fault));
            None
        }
    };
    found.append(&mut findings.found);
    described
}

/// The variables of a handler's start: its environment, and what Lambda adds. `None` if the environment can't be read.
fn start(handler: &Function) -> Option<BTreeMap<String, String>> {
    let mut variables = handler.variables()?.clone();
    let name = name_of(&handler.name).to_owned();
    variables.insert("AWS_LAMBDA_FUNCTION_NAME".to_owned(), name);
    let memory = handler.settings.as_ref().ok().and_then(|it| it.memory);
    if let Some(memory) = memory {
        variables.insert(
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned(),
            memory.to_string(),
        );
    }
    Some(variables)
}

/// A deployed handler, and what belongs to it.
struct Handler<'a> {
    handler: &'a Function,
    deployed: Option<&'a Deployed>,
    retry_queue: Option<&'a Description>,
    functions: &'a [String],
}

impl Handler<'_> {
    /// Adds what is wrong with its environment.
    fn check(&self, found: &mut Vec<Finding>, given: &Given) {
        let name = name_of(&self.handler.name);
        let mut findings = Findings::about(format!("handler {name}"));
        match (&self.handler.settings, self.deployed) {
            (Ok(settings), None) => {
                let reason = settings.variables.as_ref().err();
                let reason = reason.map_or("it can't be read", String::as_str);
                findings.add(
                    Severity::Unknown,
                    format!("not checked: its environment, since {reason}"),
                );
            }
            (Ok(settings), Some(deployed)) => {
                if let Ok(variables) = &settings.variables {
                    let environment = Environment {
                        handler: &self.handler.name,
                        variables,
                        deployed,
                        has_file: given.file.is_some(),
                        retry_queue: self.retry_queue,
                        functions: self.functions,
                    };
                    environment::check(&mut findings, &environment);
                }
            }
            // Reported with the handler.
            (Err(_), _) => {}
        }
        found.append(&mut findings.found);
    }
}

impl Given {
    /// The settings of a deployed handler, with the flags over them.
    fn over(&self, deployed: &LambdaConfig) -> LambdaConfig {
        let mut lambda = deployed.clone();
        let most = self.flags.max_attempts.and_then(std::num::NonZeroU32::new);
        lambda.decider.bounds.max_attempts = most.or(lambda.decider.bounds.max_attempts);
        lambda
    }
}

/// Loads the policy and the shadow that decide, unless they are not known here.
async fn policy(
    found: &mut Vec<Finding>,
    config: &Config,
    lambda: &LambdaConfig,
    given: &Given,
    deployed: Option<&Deployed>,
) -> Option<Arc<LivePolicy>> {
    let mut invalid = deployed.iter().flat_map(|it| &it.invalid);
    let unknown = if deployed.is_none() && given.file.is_none() {
        Some("the handler's settings are not known, and no file (--config) has them".to_owned())
    } else if invalid.any(|it| it.variable.as_deref() == Some("BACKSTOP_POLICY")) {
        Some("BACKSTOP_POLICY is invalid".to_owned())
    } else {
        elsewhere(&lambda.decider).map(|path| {
            format!(
                "{} is not here, but in the handler's package",
                path.display()
            )
        })
    };
    let Some(why) = unknown else {
        return decides(found, config, lambda).await;
    };
    let mut findings = Findings::about("policy");
    findings.add(Severity::Unknown, format!("not checked: {why}"));
    found.append(&mut findings.found);
    None
}

/// A file of the policy or the shadow that is not on this machine.
fn elsewhere(decider: &DeciderConfig) -> Option<PathBuf> {
    let mut missing = None;
    let policies = std::iter::once(&decider.policy).chain(&decider.shadow);
    policies.cloned().for_each(|mut policy: PolicySpec| {
        policy.for_each_source(|source| {
            if let Location::Path(path) = &source.location
                && !path.exists()
            {
                missing = Some(path.clone());
            }
        });
    });
    missing
}

/// Loads the policy and the shadow, and reports whether they can decide.
async fn decides(
    found: &mut Vec<Finding>,
    config: &Config,
    lambda: &LambdaConfig,
) -> Option<Arc<LivePolicy>> {
    let mut findings = Findings::about("policy");
    let assembly = match Assembly::for_check(config) {
        Ok(assembly) => assembly,
        Err(error) => {
            findings.add(Severity::Wrong, error.to_string());
            found.append(&mut findings.found);
            return None;
        }
    };
    let policy = match assembly.policy(&lambda.decider).await {
        Ok(policy) => {
            let title = policy.current().title();
            findings.add(Severity::Good, format!("{title} {VALID}"));
            discards(&mut findings, &lambda.decider);
            Some(policy)
        }
        Err(error @ LoadError::Scenarios(_)) => {
            findings.add(Severity::Wrong, chain(&error));
            None
        }
        Err(error @ LoadError::Policy(_)) => {
            findings.add(
                Severity::Wrong,
                format!("{}: the fallback would decide instead", chain(&error)),
            );
            None
        }
    };
    found.append(&mut findings.found);
    let mut findings = Findings::about("shadow");
    shadow(&mut findings, &lambda.decider, &assembly).await;
    found.append(&mut findings.found);
    policy
}
