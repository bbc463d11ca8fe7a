//! A policy: one component, or one for each part.

use backstop_files::text_or_table;
use serde::Deserializer;

use super::*;

/// `"full-jitter"`, or a table of parts.
#[derive(Debug, Clone)]
pub(crate) enum Policy {
    Single(String),
    Parts(Box<Parts>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Parts {
    pub(crate) classifier: Option<Part>,
    pub(crate) backoff: Option<Part>,
    pub(crate) dead_lettering: Option<Part>,
    pub(crate) outage: Option<Part>,
}

/// `"linear"`, or `{ use = "linear", settings = { base = "2s" } }`.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) settings: SettingsTable,
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct PartTable {
    #[serde(rename = "use")]
    name: String,
    #[serde(default)]
    settings: SettingsTable,
}

only_tables! {
    Parts: "a table of `classifier`, `backoff`, `dead-lettering` and `outage`";
    PartTable: "a table with `use` and `settings`";
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(
            deserializer,
            "a policy's name or path, or a table with `classifier`, `backoff`, `dead-lettering` and `outage`",
            |name| Some(Self::Single(name.to_owned())),
            |parts| Self::Parts(Box::new(parts)),
        )
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(
            deserializer,
            "a component's name or path, or a table with `use` and `settings`",
            |name| {
                Some(Self {
                    name: name.to_owned(),
                    settings: SettingsTable::default(),
                })
            },
            |PartTable { name, settings }| Self { name, settings },
        )
    }
}
