//! The policies that the flags name, ready to be asked.

use std::collections::BTreeMap;
use std::path::Path;

use super::Args;
use crate::exit::UsageError;
use crate::policy::{sandbox, source_of};
use backstop::config::Config;
use backstop::policy::{Catalog, LivePolicy, PartSpec, Policy, PolicySpec, Remotes, Sandbox};
use backstop::queue::short_name;
use backstop_workbench::replay::{Candidate, EvaluatedPolicy};
use backstop_workbench::subject::Subject;

/// What is asked, and what it is compared with.
pub(super) struct Candidates {
    pub(super) new: Candidate,
    /// The records where there is none.
    pub(super) old: Option<Candidate>,
}

impl Candidates {
    pub(super) fn of(args: &Args) -> anyhow::Result<Self> {
        let new = match (&args.policy, &args.config) {
            (Some(name), _) if args.settings.is_empty() => as_recorded(name)?,
            (Some(name), _) => Candidate::Configured(configured(name, &args.settings)?),
            (None, path) => queues(path.as_deref().unwrap_or(Path::new("")), args)?,
        };
        let old = args.against.as_deref().map(as_recorded).transpose()?;
        Ok(Self { new, old })
    }

    /// What is compared with.
    pub(super) fn old_label(&self) -> String {
        match &self.old {
            Some(old) => label(old),
            None => "recorded".to_owned(),
        }
    }

    /// What is asked.
    pub(super) fn new_label(&self) -> String {
        label(&self.new)
    }
}

/// The names of the parts with the digests of their files; of several policies how many there are.
fn label(candidate: &Candidate) -> String {
    match candidate.evaluated().as_slice() {
        [policy] => title(policy),
        policies => format!("the policies of {} queues", policies.len()),
    }
}

/// The names of the parts, with the digests of their files.
pub(super) fn title(asked: &EvaluatedPolicy) -> String {
    let parts: Vec<_> = asked.parts.iter().map(ToString::to_string).collect();
    parts.join(" + ")
}

fn as_recorded(name: &str) -> anyhow::Result<Candidate> {
    let subject = Subject::load(&sandbox()?, &source_of(name)?, name)?;
    Ok(Candidate::AsRecorded(subject))
}

/// As a host loads it: settings that it refuses are told at once, and not of each record.
fn configured(name: &str, settings: &[(String, String)]) -> anyhow::Result<Policy> {
    let spec = PolicySpec::Single(PartSpec {
        source: source_of(name)?,
        settings: settings.to_vec().into(),
    });
    Ok(spec.load(&sandbox()?)?)
}

/// The policies of a configuration by queue, under its limits; that of the Lambda retry handler by its retry queue.
fn queues(path: &Path, args: &Args) -> anyhow::Result<Candidate> {
    let config = Config::read(path)?;
    let sandbox = Sandbox::new(config.limits)?;
    // Nothing is kept, so that no version of an earlier run stands in for one that is wrong.
    let catalog = Catalog {
        remotes: Remotes::new(
            config.endpoint_url.clone(),
            config.policies.plain_http.clone(),
        ),
        keys: config.policies.keys.clone(),
        ..Catalog::from(&sandbox)
    };
    let lambda = config.lambda.as_ref().map(|lambda| {
        let name = lambda.retry_queue.as_deref().map_or("retries", short_name);
        (name, &lambda.policy)
    });
    let named = config.queues.iter();
    let named = named.map(|queue| (queue.name.as_str(), &queue.policy));
    let mut policies = BTreeMap::new();
    for (name, spec) in lambda.into_iter().chain(named) {
        if args.queue.as_deref().is_none_or(|queue| queue == name) {
            let policy = LivePolicy::load(&catalog, spec.clone())?.current();
            policies.insert(name.to_owned(), Policy::clone(&policy));
        }
    }
    match &args.queue {
        Some(queue) if policies.is_empty() => {
            Err(UsageError(format!("{} has no queue `{queue}`", path.display())).into())
        }
        _ => Ok(Candidate::Queues(policies)),
    }
}
