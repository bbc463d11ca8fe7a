//! The policies of a comparison, and the baselines that they are compared with.

use std::sync::Arc;

use backstop_core::settings::Settings;

use crate::simulate::evaluator::{Evaluation, instance_kind};
use backstop_core::examples::ordinary_failure;
use backstop_core::failure::{Error, Failure, Milliseconds};
use backstop_engine::{Component, ComponentError, Part, Payload, Policy, Sandbox};

/// The base of the published simulation, converted to this project's formula, which counts attempts from 1.
pub const PUBLISHED_BASE: Milliseconds = Milliseconds(10);

/// The cap of the published simulation.
pub const PUBLISHED_CAP: Milliseconds = Milliseconds(2_000);

const EXPONENTIAL: &str = include_str!("exponential.wat");

/// A policy in the comparison.
#[derive(Debug)]
pub struct Contender {
    /// Its unique name in tables and charts.
    pub label: String,
    /// The policy.
    pub policy: Policy,
    /// The body of the messages, for a policy that reads it.
    pub payload: Arc<Payload>,
    /// The failure that is passed to it, except for the fields that each run sets.
    pub example: Failure,
    /// The kind of instance in which it is evaluated.
    pub evaluation: Evaluation,
}

impl Contender {
    /// Creates a contender and chooses the kind of instance for it.
    pub fn new(label: String, policy: Policy, payload: Arc<Payload>, example: Failure) -> Self {
        let evaluation = instance_kind(&policy, &payload, &example);
        Self {
            label,
            policy,
            payload,
            example,
            evaluation,
        }
    }
}

/// The failure of a lost write, with this error.
pub fn lost_write(error: Error, source: String, attributes: Vec<(String, String)>) -> Failure {
    Failure {
        source,
        error,
        attributes,
        age: Milliseconds(0),
        ..ordinary_failure()
    }
}

backstop_core::names! {
    /// The baselines that policies are compared with. Each runs in the sandbox like any other policy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Baseline {
        /// Retries immediately.
        None = "none",
        /// Backoff without jitter.
        Exponential = "exponential",
    }
}

/// Why a baseline can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It does not take such settings.
    #[error("{0}")]
    Settings(String),
    /// The sandbox rejects it.
    #[error("can't load the baseline")]
    Component(#[from] ComponentError),
}

impl Baseline {
    /// The baseline of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|baseline| baseline.as_str() == name)
    }

    /// The baseline as a policy. `exponential` takes `base` and `cap`, by default those of the publication.
    pub fn load(self, sandbox: &Sandbox, settings: &Settings) -> Result<Policy, BaselineError> {
        let (base, cap) = match self {
            Self::None if settings.is_empty() => (0, 0),
            Self::None => {
                let why = "`none` takes no settings: it always retries immediately";
                return Err(BaselineError::Settings(why.to_owned()));
            }
            Self::Exponential => base_and_cap(settings)?,
        };
        let text = EXPONENTIAL
            .replace("0 (; base ;)", &base.to_string())
            .replace("0 (; cap ;)", &cap.to_string());
        let part = Part {
            component: Component::load(sandbox, self.as_str(), text.as_bytes())?,
            settings: Settings::new(),
        };
        Ok(Policy::single(sandbox, part))
    }
}

fn base_and_cap(settings: &Settings) -> Result<(u32, u32), BaselineError> {
    let takes = "`exponential` takes base and cap";
    let is_other = |(name, _): &&(String, String)| !["base", "cap"].contains(&name.as_str());
    if let Some((other, _)) = settings.iter().find(is_other) {
        return Err(BaselineError::Settings(format!(
            "{takes}, and no `{other}`"
        )));
    }
    let published = [("base", PUBLISHED_BASE), ("cap", PUBLISHED_CAP)];
    let published = published.map(|(name, value)| (name.to_owned(), value.to_string()));
    let all = Settings::from(published.to_vec()).merge(settings);
    let pairs = all
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let parsed = backstop_backoff::Settings::parse(pairs);
    let parsed = parsed.map_err(|wrong| BaselineError::Settings(format!("{takes}: {wrong}")))?;
    Ok((parsed.base, parsed.cap))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use backstop_backoff::jitter;

    use super::*;
    use backstop_core::decision::Action;
    use backstop_engine::Limits;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().copied().collect()
    }

    fn delay(policy: &Policy, attempt: u32) -> u32 {
        let failure = Failure {
            attempt: NonZeroU32::new(attempt).unwrap(),
            ..ordinary_failure()
        };
        let answer = policy.evaluate(&failure, &Arc::default()).answer.unwrap();
        let Action::Retry { delay } = answer.action else {
            panic!("{answer:?}");
        };
        delay.0
    }

    #[test]
    fn the_baselines_are_no_backoff_and_exponential_backoff() {
        let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
        let none = Baseline::None.load(&sandbox, &Settings::new()).unwrap();
        let published = Baseline::Exponential
            .load(&sandbox, &Settings::new())
            .unwrap();
        let slow = settings(&[("cap", "14d"), ("base", "3s")]);
        let slow = Baseline::Exponential.load(&sandbox, &slow).unwrap();
        for attempt in [1, 2, 3, 7, 8, 9, 31, 32, 33, 34, 1_000, u32::MAX] {
            assert_eq!(delay(&none, attempt), 0);
            assert_eq!(
                delay(&published, attempt),
                jitter::exponential(10, 2_000, attempt)
            );
            assert_eq!(
                delay(&slow, attempt),
                jitter::exponential(3_000, 14 * 86_400_000, attempt)
            );
        }
    }

    #[test]
    fn a_baseline_rejects_unknown_and_invalid_settings() {
        let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
        for (baseline, pairs, expected) in [
            (Baseline::None, [("base", "1s")], "takes no settings"),
            (Baseline::Exponential, [("floor", "1s")], "no `floor`"),
            (Baseline::Exponential, [("base", "1")], "a duration such as"),
            (
                Baseline::Exponential,
                [("base", "3s")],
                "at most the cap of 2s",
            ),
        ] {
            let error = baseline.load(&sandbox, &settings(&pairs)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
