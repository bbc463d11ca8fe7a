//! The policy of a delivery: a built-in one in Rust, or a component in the sandbox.

use std::sync::Arc;

use backstop_core::decision::Answer;
use backstop_core::failure::Failure;
use backstop_core::fallback;
use backstop_core::policy::{self, NAMES, Policy};
use backstop_core::settings::Settings;
use backstop_engine::Payload;

use super::Shared;
use crate::error::{Exit, Result};
use crate::policy::load;

/// The default policy, and its settings.
const DEFAULT: (&str, [(&str, &str); 3]) = (
    "full-jitter",
    [("base", "100ms"), ("cap", "20s"), ("max-age", "15m")],
);

/// The policy that the flags name.
pub(super) fn policy(shared: &Shared) -> Result<Arc<dyn Policy>> {
    let (name, defaults) = match &shared.policy {
        Some(name) => (name.as_str(), Settings::new()),
        None => (DEFAULT.0, Settings::from(DEFAULT.1)),
    };
    let settings = defaults.merge(&shared.settings);
    if NAMES.contains(&name) {
        let policy = policy::by_name(name, &settings);
        return policy.map_err(|error| Exit::Policy.because(error.to_string()));
    }
    Ok(Arc::new(Component {
        policy: load(name, &settings)?,
        name: name.to_owned(),
        settings,
        payload: Arc::new(Payload::new("")),
    }))
}

/// A policy in the sandbox. The fallback answers for a broken one.
#[derive(Debug)]
struct Component {
    name: String,
    settings: Settings,
    policy: backstop_engine::Policy,
    /// Entries are no messages with a payload.
    payload: Arc<Payload>,
}

impl Policy for Component {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn answer(&self, failure: &Failure) -> Answer {
        let evaluation = self.policy.evaluate(failure, &self.payload);
        evaluation.answer.unwrap_or_else(|error| {
            tracing::debug!(policy = self.name, %error, "the fallback decides");
            fallback::decide(failure)
        })
    }
}
