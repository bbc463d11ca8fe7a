//! What takes part in a comparison: a policy under a name, and the baselines that policies are compared with.

use std::sync::Arc;

use backstop_backoff::SettingsError;
use backstop_core::settings::Settings;
use serde::Serialize;

use crate::simulate::evaluator::{Evaluation, instance_kind};
use backstop::policy::{Component, ComponentError, Part, Payload, Policy, Sandbox};
use backstop_core::examples::ordinary_failure;
use backstop_core::failure::{Error, Failure, Milliseconds};

/// The base of the published simulation, as our formula counts attempts.
pub const PUBLISHED_BASE: Milliseconds = Milliseconds(10);

/// The cap of the published simulation.
pub const PUBLISHED_CAP: Milliseconds = Milliseconds(2_000);

const EXPONENTIAL: &str = include_str!("exponential.wat");

/// A policy that takes part.
#[derive(Debug)]
pub struct Contender {
    /// What it is called in tables and charts; no two are called the same.
    pub label: String,
    /// The policy.
    pub policy: Policy,
    /// The body of the messages, for a policy that looks into it.
    pub payload: Arc<Payload>,
    /// The failure that it is told of, but for what the run says.
    pub example: Failure,
    /// In what kind of instance it is asked.
    pub asked: Evaluation,
}

impl Contender {
    /// Finds out how the policy is to be asked.
    pub fn new(label: String, policy: Policy, payload: Arc<Payload>, example: Failure) -> Self {
        let asked = instance_kind(&policy, &payload, &example);
        Self {
            label,
            policy,
            payload,
            example,
            asked,
        }
    }
}

/// The failure of a write that lost, with this error.
pub fn lost_write(error: Error, source: String, attributes: Vec<(String, String)>) -> Failure {
    Failure {
        source,
        error,
        attributes,
        age: Milliseconds(0),
        ..ordinary_failure()
    }
}

/// What policies are compared with; each runs in the sandbox like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Tries again at once.
    None,
    /// Backoff without jitter.
    Exponential,
}

/// Settings that a baseline does not take.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// There is nothing to set.
    #[error("`none` takes no settings: it always tries again at once")]
    Nothing,
    /// Not those of backoff.
    #[error("`exponential` takes base and cap: {0}")]
    Settings(SettingsError),
    /// A setting of jitter, or of an end.
    #[error("`exponential` takes base and cap, and no `{0}`")]
    Other(String),
    /// The sandbox refuses it.
    #[error("a baseline does not load")]
    Component(#[from] ComponentError),
}

impl Baseline {
    /// The baseline of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "exponential" => Some(Self::Exponential),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exponential => "exponential",
        }
    }

    /// The baseline as a policy. `exponential` takes `base` and `cap`, those of the publication by default.
    pub fn load(self, sandbox: &Sandbox, settings: &Settings) -> Result<Policy, BaselineError> {
        let (base, cap) = match self {
            Self::None if settings.is_empty() => (0, 0),
            Self::None => return Err(BaselineError::Nothing),
            Self::Exponential => base_and_cap(settings)?,
        };
        let text = EXPONENTIAL
            .replace("0 (; base ;)", &base.to_string())
            .replace("0 (; cap ;)", &cap.to_string());
        let part = Part {
            component: Component::load(sandbox, self.name(), text.as_bytes())?,
            settings: Settings::new(),
        };
        Ok(Policy::single(sandbox, part))
    }
}

fn base_and_cap(settings: &Settings) -> Result<(u32, u32), BaselineError> {
    if let Some((other, _)) = settings
        .iter()
        .find(|(name, _)| !["base", "cap"].contains(&name.as_str()))
    {
        return Err(BaselineError::Other(other.clone()));
    }
    let published = [
        ("base", PUBLISHED_BASE.to_string()),
        ("cap", PUBLISHED_CAP.to_string()),
    ];
    let not_set = published
        .iter()
        .filter(|(name, _)| settings.iter().all(|(set, _)| set != name));
    let pairs = settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .chain(not_set.map(|(name, value)| (*name, value.as_str())));
    let settings = backstop_backoff::Settings::parse(pairs).map_err(BaselineError::Settings)?;
    Ok((settings.base, settings.cap))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use backstop_backoff::jitter;

    use super::*;
    use backstop::policy::Limits;
    use backstop_core::decision::Action;

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
    fn the_baselines_are_no_backoff_and_the_exponential_of_the_formula() {
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
    fn a_baseline_says_what_it_takes() {
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
            let refused = baseline.load(&sandbox, &settings(&pairs)).unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
}
