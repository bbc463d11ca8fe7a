//! The settings of a policy: names and values, in the order in which the operator gives them.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Names and values, in the operator's order. Each name occurs at most once after a [`merge`](Self::merge).
///
/// ```
/// use backstop_core::settings::Settings;
///
/// let defaults: Settings = [("base", "1s"), ("cap", "1h")].into();
/// let settings = defaults.merge(&Settings::from([("base", "2s")]));
/// assert_eq!(settings.get("base"), Some("2s"));
/// assert_eq!(settings.to_string(), "cap=1h, base=2s");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(Vec<(String, String)>);

/// A text that is not `name=value`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a setting: expected name=value, such as base=2s")]
pub struct ParseSettingError(String);

impl Settings {
    /// No settings.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of the setting with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// These settings with `above` on top: a setting of `above` replaces one with the same name.
    #[must_use]
    pub fn merge(&self, above: &[(String, String)]) -> Self {
        Self(merge_pairs(&self.0, above))
    }
}

/// `pairs` with `above` on top: a pair of `above` replaces those with the same name.
pub fn merge_pairs(
    pairs: &[(String, String)],
    above: &[(String, String)],
) -> Vec<(String, String)> {
    let is_replaced = |name: &String| above.iter().any(|(above, _)| above == name);
    let kept = pairs.iter().filter(|(name, _)| !is_replaced(name));
    kept.chain(above).cloned().collect()
}

/// Parses `name=value`, without the spaces around either.
pub fn parse_pair(pair: &str) -> Result<(String, String), ParseSettingError> {
    match pair.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(ParseSettingError(pair.to_owned())),
    }
}

/// Parses `name=value,name=value`. A part without `=` goes on with the list of the one before: `permanent=CardDeclined,OutOfStock,base=2s`.
///
/// ```
/// use backstop_core::settings::parse_pairs;
///
/// let pairs = parse_pairs("permanent=CardDeclined, OutOfStock,base=2s").unwrap();
/// let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
/// assert_eq!(pairs, [pair("permanent", "CardDeclined,OutOfStock"), pair("base", "2s")]);
/// ```
pub fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, ParseSettingError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        match pairs.last_mut() {
            Some((_, list)) if !part.contains('=') => {
                list.push(',');
                list.push_str(part.trim());
            }
            Some(_) | None => pairs.push(parse_pair(part)?),
        }
    }
    Ok(pairs)
}

impl Deref for Settings {
    type Target = [(String, String)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for Settings {
    /// `base=2s, cap=1h`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

impl From<Vec<(String, String)>> for Settings {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Settings {
    fn from(pairs: [(&str, &str); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl<'a> IntoIterator for &'a Settings {
    type Item = &'a (String, String);
    type IntoIter = std::slice::Iter<'a, (String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_given_again_replaces_the_first() {
        let below = Settings::from([("base", "1s"), ("cap", "1h")]);
        let above = Settings::from([("base", "2s"), ("floor", "1s")]);
        let merged = Settings::from([("cap", "1h"), ("base", "2s"), ("floor", "1s")]);
        assert_eq!(below.merge(&above), merged);
        assert_eq!(merged.get("floor"), Some("1s"));
        assert_eq!(merged.get("codes"), None);
    }

    #[test]
    fn a_pair_has_a_name_and_may_have_an_empty_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(parse_pair(" base = 2s "), pair("base", "2s"));
        assert_eq!(parse_pair("a=b=c"), pair("a", "b=c"));
        assert_eq!(parse_pair("codes="), pair("codes", ""));
        assert!(parse_pair("base").is_err() && parse_pair("=2s").is_err());
    }

    #[test]
    fn settings_are_serialized_as_a_list_of_pairs() {
        let settings = Settings::from([("base", "2s"), ("cap", "1h")]);
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(text, r#"[["base","2s"],["cap","1h"]]"#);
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }
}
