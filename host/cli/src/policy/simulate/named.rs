//! Policies as they are named on this command line: with settings of their own after a colon.

use crate::exit::UsageError;
use crate::policy::source_of;
use backstop::config::parse_pair;
use backstop::policy::{PartSpec, Policy, PolicySpec, Sandbox};
use backstop_core::settings::Settings;
use backstop_workbench::simulate::contention::Baseline;

/// A policy, what it is called, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    name: String,
    settings: Settings,
}

impl Named {
    /// Reads `NAME|FILE[:SETTING=VALUE,…]`. The settings of `all` come first, unless the policy has its own of that name.
    pub(super) fn parse(text: &str, all: &Settings) -> Result<Self, UsageError> {
        let (name, own) = match text.rsplit_once(':') {
            Some((name, settings)) if settings.contains('=') => (name, settings),
            _ => (text, ""),
        };
        let own = own
            .split(',')
            .filter(|pair| !pair.is_empty())
            .map(parse_pair)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|wrong| UsageError(format!("{text}: {wrong}")))?;
        Ok(Self {
            name: name.to_owned(),
            settings: all.merge(&own),
        })
    }

    /// A baseline of this name, if the name is one.
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

    /// Loads it as a host does.
    pub(super) fn load(&self, sandbox: &Sandbox) -> anyhow::Result<Policy> {
        if let Some(baseline) = self.baseline() {
            return baseline
                .load(sandbox, &self.settings)
                .map_err(|wrong| UsageError(wrong.to_string()).into());
        }
        let spec = PolicySpec::Single(PartSpec {
            source: source_of(&self.name)?,
            settings: self.settings.clone(),
        });
        Ok(spec.load(sandbox)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_a_colon_and_come_before_those_of_all() {
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
            assert_eq!(Named::parse(text, &all).unwrap().label(), label);
        }
        assert_eq!(
            Named::parse("none", &Settings::new()).unwrap().phrase(),
            "none"
        );
        let refused = Named::parse("linear:base=1s,cap", &Settings::new()).unwrap_err();
        assert!(refused.to_string().contains("`cap` is not a setting"));
    }
}
