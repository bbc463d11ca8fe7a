//! The policy of a queue: one component, or one for each question.

use std::path::Path;

use super::{ConfigError, raw, value};
use crate::policy::{PartSpec, Parts, PolicySpec, Source};

/// Converts `policy` and `settings` together; without a policy, to `full-jitter`. `at` returns the name of a key for error messages.
pub(super) fn policy(
    policy: Option<raw::Policy>,
    settings: Option<raw::SettingsTable>,
    folder: &Path,
    at: &dyn Fn(&str) -> String,
) -> Result<PolicySpec, ConfigError> {
    let part = |part: raw::Part, key: &str| {
        let source = Source::parse(&part.name, folder).map_err(|cause| ConfigError::Policy {
            place: at(key),
            cause,
        })?;
        Ok(PartSpec {
            source,
            settings: part.settings.0,
        })
    };
    match policy {
        Some(raw::Policy::Parts(parts)) => {
            if settings.is_some() {
                return Err(value(
                    at("settings"),
                    "expected none with a composed policy: give each part its own, as { use = \"linear\", settings = { base = \"2s\" } }",
                ));
            }
            let raw::Parts {
                classifier,
                backoff,
                dead_lettering,
                outage,
            } = *parts;
            let parts = Parts {
                classifier,
                dead_lettering,
                backoff,
                outage,
            };
            if parts.is_empty() {
                return Err(value(
                    at("policy"),
                    "expected at least one of `classifier`, `backoff`, `dead-lettering` and `outage`",
                ));
            }
            let parts = parts.try_map(|role, named| part(named, &format!("policy.{role}")))?;
            Ok(PolicySpec::Composed(parts))
        }
        Some(raw::Policy::Single(name)) => part(
            raw::Part {
                name,
                settings: settings.unwrap_or_default(),
            },
            "policy",
        )
        .map(PolicySpec::Single),
        None => part(
            raw::Part {
                name: "full-jitter".to_owned(),
                settings: settings.unwrap_or_default(),
            },
            "policy",
        )
        .map(PolicySpec::Single),
    }
}
