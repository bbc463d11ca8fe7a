//! Policies as this command names them: with optional settings after a colon.

use backstop_core::settings::{Settings, parse_pair};
use backstop_engine::{Policy, Sandbox};
use backstop_workbench::simulate::contention::Baseline;

use crate::error::{Exit, Result};
use crate::policy::named_policy;

/// A policy or a baseline, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfiguredPolicy {
    name: String,
    settings: Settings,
}

impl ConfiguredPolicy {
    /// Parses `NAME|FILE[:SETTING=VALUE,…]`. Its own settings override those of `all`.
    pub(super) fn parse(text: &str, all: &Settings) -> Result<Self> {
        let (name, own) = match text.rsplit_once(':') {
            Some((name, settings)) if settings.contains('=') => (name, settings),
            _ => (text, ""),
        };
        let own = own
            .split(',')
            .filter(|pair| !pair.is_empty())
            .map(parse_pair)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|wrong| Exit::Usage.because(format!("{text}: {wrong}")))?;
        Ok(Self {
            name: name.to_owned(),
            settings: all.merge(&own),
        })
    }

    /// The baseline with this name, if there is one.
    pub(super) fn baseline(&self) -> Option<Baseline> {
        Baseline::named(&self.name)
    }

    /// The policy and its settings, for people: `full-jitter (base=10ms, cap=2s)`.
    pub(super) fn label(&self) -> String {
        match &self.settings {
            settings if settings.is_empty() => self.name.clone(),
            settings => format!("{} ({settings})", self.name),
        }
    }

    /// The same as a phrase: `full-jitter with base=10ms, cap=2s`.
    pub(super) fn phrase(&self) -> String {
        match &self.settings {
            settings if settings.is_empty() => self.name.clone(),
            settings => format!("{} with {settings}", self.name),
        }
    }

    /// Loads the policy as a host does.
    pub(super) fn load(&self, sandbox: &Sandbox) -> Result<Policy> {
        if let Some(baseline) = self.baseline() {
            return Ok(baseline.load(sandbox, &self.settings)?);
        }
        named_policy::load(sandbox, &self.name, &self.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_a_colon_and_override_those_of_all() {
        let all = [("base", "1s")].into();
        for (text, label) in [
            ("linear", "linear (base=1s)"),
            ("linear:base=2s", "linear (base=2s)"),
            (
                "linear:cap=9s,floor=1s",
                "linear (base=1s, cap=9s, floor=1s)",
            ),
            ("./odd:name.wasm", "./odd:name.wasm (base=1s)"),
            ("./odd:name.wasm:base=3s", "./odd:name.wasm (base=3s)"),
        ] {
            assert_eq!(ConfiguredPolicy::parse(text, &all).unwrap().label(), label);
        }
        assert_eq!(
            ConfiguredPolicy::parse("none", &Settings::new())
                .unwrap()
                .phrase(),
            "none"
        );
        let refused = ConfiguredPolicy::parse("linear:base=1s,cap", &Settings::new()).unwrap_err();
        assert!(refused.to_string().contains("`cap` is not a setting"));
    }
}
