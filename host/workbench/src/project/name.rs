//! The names of policies.

use std::fmt;

/// The name of a policy: lower-case words joined by hyphens, at most 64 bytes, so that every toolchain accepts it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyName(String);

impl PolicyName {
    /// The name with underscores, for languages that allow no hyphens.
    pub(crate) fn as_identifier(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for PolicyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if ["backstop-policy", "backstop-backoff"].contains(&name) {
            return Err("it is the name of a crate of the SDK; expected another name".to_owned());
        }
        let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
        if starts_with_letter && name.len() <= 64 && name.split('-').all(is_word) {
            return Ok(Self(name.to_owned()));
        }
        Err("expected lower-case words joined by hyphens, such as card-payments, of at most 64 letters and digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_every_toolchain_takes() {
        for name in ["a", "card-payments", "v2", "a1-b2"] {
            assert!(name.parse::<PolicyName>().is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "1a", "a_b", "a/b", "..", "é"] {
            assert!(name.parse::<PolicyName>().is_err(), "{name}");
        }
        assert!("a".repeat(65).parse::<PolicyName>().is_err());
    }
}
