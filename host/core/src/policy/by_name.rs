//! The built-in policies by name, with settings as text.

use std::sync::Arc;

use backstop_backoff::{AwsSdk as Rule, Settings, SettingsError};

use super::standard::*;
use super::{AwsSdk, Policy};
use crate::settings;

/// Why there is no policy with a name and settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No built-in policy has this name.
    #[error("unknown policy `{0}`: expected one of {names}", names = NAMES.join(", "))]
    Unknown(String),
    /// The policy rejects its settings. The text is the component's.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// Makes [`NAMES`] and [`by_name`] from the list of the built-in policies.
macro_rules! policies {
    (
        formulas { $($(#[$doc:meta])+ $formula:literal $type:ident $function:ident;)+ }
        rules { $($rule:literal $parse:ident;)+ }
    ) => {
        /// The names of the built-in policies, in the order of the documentation.
        pub const NAMES: [&str; [$($formula,)+ $($rule),+].len()] = [$($formula,)+ $($rule),+];

        /// The built-in policy with this name, in Rust. It accepts the settings that the component with this name accepts, and rejects others with the same text.
        ///
        /// ```
        /// use backstop_core::policy::{Policy, by_name};
        /// let policy = by_name("linear", &[("base", "2s")].into()).unwrap();
        /// assert_eq!(policy.name(), "linear");
        /// let refused = by_name("linear", &[("bass", "2s")].into()).unwrap_err();
        /// assert!(refused.to_string().starts_with("unknown setting `bass`"));
        /// ```
        pub fn by_name(
            name: &str,
            settings: &settings::Settings,
        ) -> Result<Arc<dyn Policy>, PolicyError> {
            let pairs = settings.iter();
            let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
            Ok(match name {
                $($formula => Arc::new($type::with_settings(Settings::parse(pairs)?)),)+
                $($rule => Arc::new(AwsSdk::new(Rule::$parse(pairs)?)),)+
                _ => return Err(PolicyError::Unknown(name.to_owned())),
            })
        }
    };
}

crate::built_in_policies!(policies);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_policy_of_that_name() {
        for name in NAMES {
            let policy = by_name(name, &[("base", "2s"), ("cap", "1h")].into()).unwrap();
            assert_eq!(policy.name(), name);
            assert_eq!(policy.settings().to_string(), "base=2s, cap=1h");
        }
    }

    #[test]
    fn an_unknown_name_and_an_invalid_setting_are_rejected() {
        let unknown = by_name("fulljitter", &settings::Settings::new()).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown policy `fulljitter`: expected one of full-jitter, equal-jitter, linear, decorrelated-jitter, aws-sdk-2.0, aws-sdk-2.1"
        );
        let refused = by_name("linear", &[("base", "2h"), ("cap", "1h")].into()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "setting `base` is `2h`: expected at most the cap of 1h"
        );
    }
}
