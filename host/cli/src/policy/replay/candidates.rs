//! The policies that the flags name, loaded.

use std::collections::BTreeMap;
use std::path::Path;

use backstop_engine::Policy;
use backstop_host::assembly::Assembly;
use backstop_host::config::Config;
use backstop_workbench::replay::{Candidate, EvaluatedPolicy, QueuePolicy};
use backstop_workbench::subject::Subject;

use super::args::Args;
use crate::error::{Exit, Result};
use crate::policy::{load, named_policy, sandbox};

/// The new policy, and what it is compared with.
pub(super) struct Candidates {
    pub(super) new: Candidate,
    /// Without it, the recorded decisions are compared.
    pub(super) old: Option<Candidate>,
}

impl Candidates {
    /// Loads the policies.
    pub(super) fn load(args: &Args) -> Result<Self> {
        let new = match (&args.policy, &args.config) {
            (Some(name), _) => named(name, &args.settings)?,
            (None, path) => {
                let path = path.as_deref().unwrap_or(Path::new(""));
                queues(path, args.queue.as_deref())?
            }
        };
        let old = args.against.as_deref().map(as_recorded).transpose()?;
        Ok(Self { new, old })
    }

    /// The name of what is compared with.
    pub(super) fn old_label(&self) -> String {
        match &self.old {
            Some(old) => label(old),
            None => "recorded".to_owned(),
        }
    }

    /// The name of the new policy.
    pub(super) fn new_label(&self) -> String {
        label(&self.new)
    }
}

/// The title of the policy, or the number of policies if there are several.
fn label(candidate: &Candidate) -> String {
    match candidate.evaluated().as_slice() {
        [policy] => title(policy),
        policies => format!("the policies of {} queues", policies.len()),
    }
}

/// The names of the parts, with the digests of their files.
pub(super) fn title(policy: &EvaluatedPolicy) -> String {
    let parts: Vec<_> = policy.parts.iter().map(ToString::to_string).collect();
    parts.join(" + ")
}

/// The policy with this name: with these settings, or without any with those of each record.
pub(crate) fn named(name: &str, settings: &[(String, String)]) -> Result<Candidate> {
    if settings.is_empty() {
        return as_recorded(name);
    }
    // Loaded as a host does, so that rejected settings fail once and not for each record.
    let policy = load(name, &settings.to_vec().into())?;
    Ok(Candidate::Configured(policy))
}

fn as_recorded(name: &str) -> Result<Candidate> {
    let subject = Subject::load(&sandbox::cached()?, &named_policy::source(name)?, name)?;
    Ok(Candidate::AsRecorded(subject))
}

/// The policies of a configuration by queue, with its limits. The policy of the Lambda retry handler is under the name of its retry queue.
pub(crate) fn queues(path: &Path, queue: Option<&str>) -> Result<Candidate> {
    let config = Config::read(path)?;
    let assembly = Assembly::for_check(&config)?;
    let mut policies = BTreeMap::new();
    for (name, decider) in config.deciders() {
        if queue.is_none_or(|queue| queue == name) {
            let policy = assembly.load(&decider.policy)?.current();
            let policy = QueuePolicy {
                policy: Policy::clone(&policy),
                bounds: decider.bounds,
            };
            policies.insert(name.to_owned(), policy);
        }
    }
    match queue {
        Some(queue) if policies.is_empty() => {
            Err(Exit::Usage.because(format!("{} has no queue `{queue}`", path.display())))
        }
        _ => Ok(Candidate::Queues(policies)),
    }
}
