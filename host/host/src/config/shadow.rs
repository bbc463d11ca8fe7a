//! The shadow of a queue: a policy that is evaluated in addition to the live one.

use std::path::Path;

use super::policy::policy;
use super::{ConfigError, raw, value};
use crate::policy::PolicySpec;

/// The settings of the live policy that a shadow inherits: those of a single policy.
pub(super) fn settings_of(
    policy: Option<&raw::Policy>,
    settings: Option<&raw::SettingsTable>,
) -> Option<raw::SettingsTable> {
    match policy {
        Some(raw::Policy::Parts(_)) => None,
        Some(raw::Policy::Single(_)) | None => settings.cloned(),
    }
}

/// Converts `shadow` and `shadow-settings` together. A single policy without settings inherits those of the `live` policy. `at` returns the name of a key for error messages.
pub(super) fn shadow(
    shadow: Option<raw::Policy>,
    settings: Option<raw::SettingsTable>,
    live: Option<raw::SettingsTable>,
    folder: &Path,
    at: &dyn Fn(&str) -> String,
) -> Result<Option<PolicySpec>, ConfigError> {
    let settings = match (&shadow, settings) {
        (None, Some(_)) => {
            return Err(value(
                at("shadow-settings"),
                "expected together with `shadow` only",
            ));
        }
        (None, None) => return Ok(None),
        (Some(raw::Policy::Single(_)), settings) => settings.or(live),
        (Some(raw::Policy::Parts(_)), settings) => settings,
    };
    let at = |key: &str| match key.strip_prefix("policy") {
        Some(part) => at(&format!("shadow{part}")),
        None => at("shadow-settings"),
    };
    policy(shadow, settings, folder, &at).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use backstop_core::settings::Settings;

    fn parsed(queue: &str) -> Result<Option<PolicySpec>, String> {
        let text =
            format!("[queues.q]\nurl = \"local:q\"\nhandler = {{ exec = [\"true\"] }}\n{queue}");
        Config::parse(&text, Path::new("/etc/backstop.toml"))
            .map(|config| config.queues[0].decider.shadow.clone())
            .map_err(|error| error.to_string())
    }

    fn settings(spec: Option<PolicySpec>) -> Settings {
        match spec {
            Some(PolicySpec::Single(part)) => part.settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_shadow_has_its_own_settings_or_those_of_the_live_policy() {
        let pair = |value| Settings::from([("base", value)]);
        for (queue, expected) in [
            (
                "settings = { base = \"2s\" }\nshadow = \"linear\"",
                pair("2s"),
            ),
            (
                "settings = { base = \"2s\" }\nshadow = \"linear\"\nshadow-settings = { base = \"3s\" }",
                pair("3s"),
            ),
            (
                "policy = { backoff = \"linear\" }\nshadow = \"linear\"",
                Settings::new(),
            ),
        ] {
            assert_eq!(settings(parsed(queue).unwrap()), expected, "{queue}");
        }
        assert_eq!(parsed("").unwrap(), None);
        let parts = parsed("settings = { base = \"2s\" }\nshadow = { backoff = \"linear\" }");
        assert!(matches!(parts, Ok(Some(PolicySpec::Composed(_)))));
    }

    #[test]
    fn an_invalid_shadow_is_rejected_with_its_key() {
        for (queue, place) in [
            ("shadow = \"ful-jitter\"", "queues.q.shadow"),
            ("shadow = { backoff = \"x\" }", "queues.q.shadow.backoff"),
            ("shadow = {}", "queues.q.shadow"),
            (
                "shadow-settings = { base = \"2s\" }",
                "queues.q.shadow-settings",
            ),
            (
                "shadow = { backoff = \"linear\" }\nshadow-settings = { base = \"2s\" }",
                "queues.q.shadow-settings",
            ),
        ] {
            let error = parsed(queue).unwrap_err();
            let place = format!(": {place}");
            assert!(error.contains(&place), "{queue}: {error}");
        }
    }
}
