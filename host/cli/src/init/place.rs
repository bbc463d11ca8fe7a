//! The names in the manifests of `examples/operate`, and those of a queue in their place.

use super::given::Given;
use super::seen::Seen;
use crate::error::{Exit, Result};

/// The name of a queue, its region and its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place<'a> {
    name: String,
    region: &'a str,
    account: &'a str,
}

impl<'a> Place<'a> {
    /// That of the queue, for the files of a flag. A queue in memory has none.
    pub(super) fn of(given: &Given, seen: &'a Seen, flag: &str) -> Result<Self> {
        let parts: Vec<_> = seen.arn.split(':').collect();
        let [_, _, _, region, account, _] = parts[..] else {
            return Err(Exit::Usage.because(format!(
                "{flag} needs a queue in SQS, and {} is in memory",
                given.url
            )));
        };
        Ok(Self {
            name: label(&given.name),
            region,
            account,
        })
    }

    /// A manifest of the examples with these names.
    pub(super) fn named(&self, text: &str) -> String {
        text.replace("orders", &self.name)
            .replace("eu-west-1", self.region)
            .replace("123456789012", self.account)
    }
}

/// A name as objects of Kubernetes and task definitions have it.
pub(super) fn label(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name: String = name
        .to_lowercase()
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(40)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "queue" } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_no_character_that_kubernetes_refuses() {
        for (name, expected) in [
            ("orders", "orders"),
            ("Orders_EU.dead", "orders-eu-dead"),
            ("--", "queue"),
            ("ü", "queue"),
        ] {
            assert_eq!(label(name), expected);
        }
    }
}
