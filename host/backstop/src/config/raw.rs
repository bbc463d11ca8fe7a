//! The shape of `backstop.toml`: names and kinds of values. What they mean is decided one level up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use backstop_files::only_tables;
pub(super) use backstop_files::values::{Bytes, Command, SettingsTable, Span};

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Config {
    pub(super) endpoint_url: Option<String>,
    pub(super) decisions: Option<Decisions>,
    pub(super) metrics: Option<String>,
    pub(super) limits: Option<Limits>,
    pub(super) policies: Option<Policies>,
    #[serde(default)]
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) lambda: Option<Lambda>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Policies {
    pub(super) cache: Option<String>,
    pub(super) refresh: Option<Span>,
    pub(super) poll: Option<Span>,
    pub(super) require_signature: Option<Vec<String>>,
    #[serde(default)]
    pub(super) plain_http: Vec<String>,
    /// `roll-back` is the key's former spelling.
    #[serde(rename = "rollback", alias = "roll-back")]
    pub(super) rollback: Option<Rollback>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Rollback {
    pub(super) broken: Option<u32>,
    pub(super) within: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Lambda {
    pub(super) retry_queue: Option<String>,
    pub(super) dead_letter_queue: Option<String>,
    pub(super) policy: Option<Policy>,
    pub(super) settings: Option<SettingsTable>,
    pub(super) scenarios: Option<PathBuf>,
    pub(super) shadow: Option<Policy>,
    pub(super) shadow_settings: Option<SettingsTable>,
    pub(super) max_attempts: Option<u32>,
    pub(super) max_age: Option<Span>,
    pub(super) allow_discard: Option<bool>,
    pub(super) margin: Option<Span>,
    pub(super) handler: Option<String>,
    #[serde(default)]
    pub(super) functions: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(super) struct Decisions {
    pub(super) record: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) fuel: Option<u64>,
    pub(super) time: Option<Span>,
    pub(super) memory: Option<Bytes>,
    pub(super) table_elements: Option<usize>,
    pub(super) instances: Option<usize>,
    pub(super) log: Option<Bytes>,
    pub(super) strings: Option<Bytes>,
    pub(super) payload: Option<Bytes>,
    pub(super) component: Option<Bytes>,
    pub(super) compile: Option<CompileLimits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CompileLimits {
    pub(super) time: Option<Span>,
    pub(super) cpu: Option<Span>,
    pub(super) memory: Option<Bytes>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) url: String,
    pub(super) dead_letter_queue: Option<String>,
    pub(super) handler: Handler,
    pub(super) policy: Option<Policy>,
    pub(super) settings: Option<SettingsTable>,
    pub(super) scenarios: Option<PathBuf>,
    pub(super) shadow: Option<Policy>,
    pub(super) shadow_settings: Option<SettingsTable>,
    pub(super) max_attempts: Option<u32>,
    pub(super) max_age: Option<Span>,
    pub(super) allow_discard: Option<bool>,
    pub(super) max_in_flight: Option<usize>,
    pub(super) max_bytes_in_flight: Option<Bytes>,
    pub(super) visibility_timeout: Option<Span>,
    pub(super) attempt_timeout: Option<Span>,
    pub(super) linger: Option<Span>,
    pub(super) grace: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(super) struct Handler {
    pub(super) http: Option<String>,
    pub(super) proxy: Option<String>,
    pub(super) exec: Option<Command>,
    pub(super) lambda: Option<String>,
}

/// `"full-jitter"`, or a table of parts.
#[derive(Debug)]
pub(super) enum Policy {
    Whole(String),
    Parts(Box<Parts>),
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Parts {
    pub(super) classifier: Option<Part>,
    pub(super) backoff: Option<Part>,
    pub(super) dead_lettering: Option<Part>,
}

/// `"linear"`, or `{ use = "linear", settings = { base = "2s" } }`.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) settings: SettingsTable,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct PartTable {
    #[serde(rename = "use")]
    name: String,
    #[serde(default)]
    settings: SettingsTable,
}

only_tables! {
    Config: "the tables of a configuration";
    Policies: "a table of `cache`, `refresh` and the like, such as { refresh = \"1m\" }";
    Rollback: "a table of `broken` and `within`, such as { broken = 5, within = \"1m\" }";
    Lambda: "a table, such as [lambda] with `retry-queue` and `policy`";
    Decisions: "a table with `record`, such as { record = \"decisions.jsonl\" }";
    Limits: "a table of limits, such as { fuel = 50000000, memory = \"64MiB\" }";
    CompileLimits: "a table of `time`, `cpu` and `memory`, such as { time = \"5m\", memory = \"2GiB\" }";
    Queue: "a table, such as [queues.orders] with `url` and `handler`";
    Handler: "a table with `http`, `exec` or `lambda`, such as { http = \"http://127.0.0.1:8080/\" }";
    Parts: "a table of `classifier`, `backoff` and `dead-lettering`";
    PartTable: "a table with `use` and `settings`";
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Policy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy's name or path, or a table with `classifier`, `backoff` and `dead-lettering`")
            }

            fn visit_str<E>(self, name: &str) -> Result<Policy, E> {
                Ok(Policy::Whole(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Policy, A::Error> {
                Parts::deserialize(MapAccessDeserializer::new(table))
                    .map(|parts| Policy::Parts(Box::new(parts)))
            }
        }

        deserializer.deserialize_any(TextOrParts)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a component's name or path, or a table with `use` and `settings`")
            }

            fn visit_str<E>(self, name: &str) -> Result<Part, E> {
                Ok(Part {
                    name: name.to_owned(),
                    settings: SettingsTable::default(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Part, A::Error> {
                let PartTable { name, settings } =
                    PartTable::deserialize(MapAccessDeserializer::new(table))?;
                Ok(Part { name, settings })
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}
