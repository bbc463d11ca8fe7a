//! The raw form of a configuration: the names and types of its values, before they are checked. A file is deserialized into it; the builder, flags and environment variables set its fields. It is converted once, one level up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{FunctionHandler, OnMissingKey, OnUnknown, RecordAttributes, RecordFormat};
use crate::hold::HoldMode;
use backstop_files::only_tables;
pub(crate) use backstop_files::values::{Bytes, Command, SettingsTable, Span};

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) endpoint_url: Option<String>,
    pub(crate) decisions: Option<Decisions>,
    pub(crate) metrics: Option<String>,
    pub(crate) admin: Option<String>,
    pub(crate) admin_token_file: Option<PathBuf>,
    pub(crate) admin_hosts: Option<Vec<String>>,
    pub(crate) limits: Option<Limits>,
    pub(crate) policies: Option<Policies>,
    #[serde(default)]
    pub(crate) queues: BTreeMap<String, Queue>,
    pub(crate) lambda: Option<Lambda>,
}

/// A file in which each queue has a handler; anything else is ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct WithHandlers {
    #[serde(default, rename = "queues")]
    _queues: BTreeMap<String, WithHandler>,
}

#[derive(Debug, Deserialize)]
struct WithHandler {
    #[serde(rename = "handler")]
    _handler: IgnoredAny,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Policies {
    pub(crate) cache: Option<String>,
    pub(crate) refresh: Option<Span>,
    pub(crate) poll: Option<Span>,
    pub(crate) require_signature: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) plain_http: Vec<String>,
    #[serde(default)]
    pub(crate) token_servers: Vec<String>,
    pub(crate) rollback: Option<Rollback>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Rollback {
    pub(crate) broken: Option<u32>,
    pub(crate) within: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Lambda {
    pub(crate) retry_queue: Option<String>,
    pub(crate) dead_letter_queue: Option<DeadLetterQueues>,
    pub(crate) policy: Option<Policy>,
    pub(crate) settings: Option<SettingsTable>,
    pub(crate) scenarios: Option<PathBuf>,
    pub(crate) signed_for: Option<String>,
    pub(crate) shadow: Option<Policy>,
    pub(crate) shadow_settings: Option<SettingsTable>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_age: Option<Span>,
    pub(crate) allow_discard: Option<bool>,
    pub(crate) hold: Option<HoldMode>,
    pub(crate) envelope_key_file: Option<PathBuf>,
    pub(crate) margin: Option<Span>,
    pub(crate) handler: Option<String>,
    #[serde(default)]
    pub(crate) functions: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Decisions {
    pub(crate) record: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) fuel: Option<u64>,
    pub(crate) time: Option<Span>,
    pub(crate) memory: Option<Bytes>,
    pub(crate) table_elements: Option<usize>,
    pub(crate) instances: Option<usize>,
    pub(crate) log: Option<Bytes>,
    pub(crate) strings: Option<Bytes>,
    pub(crate) payload: Option<Bytes>,
    pub(crate) component: Option<Bytes>,
    pub(crate) compile: Option<CompileLimits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct CompileLimits {
    pub(crate) time: Option<Span>,
    pub(crate) cpu: Option<Span>,
    pub(crate) memory: Option<Bytes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Queue {
    pub(crate) url: String,
    pub(crate) dead_letter_queue: Option<DeadLetterQueues>,
    /// Required, by the conversion: a program may set a function in place of it.
    pub(crate) handler: Option<Handler>,
    pub(crate) idempotency: Option<Idempotency>,
    pub(crate) policy: Option<Policy>,
    pub(crate) settings: Option<SettingsTable>,
    pub(crate) scenarios: Option<PathBuf>,
    pub(crate) signed_for: Option<String>,
    pub(crate) shadow: Option<Policy>,
    pub(crate) shadow_settings: Option<SettingsTable>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_age: Option<Span>,
    pub(crate) allow_discard: Option<bool>,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) max_polls: Option<usize>,
    pub(crate) max_bytes_in_flight: Option<Bytes>,
    pub(crate) hold: Option<HoldMode>,
    pub(crate) envelope_key_file: Option<PathBuf>,
    pub(crate) visibility_timeout: Option<Span>,
    pub(crate) attempt_timeout: Option<Span>,
    pub(crate) linger: Option<Span>,
    pub(crate) grace: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Handler {
    pub(crate) http: Option<String>,
    pub(crate) proxy: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) exec: Option<Command>,
    pub(crate) lambda: Option<String>,
    /// Set by a program.
    #[serde(skip)]
    pub(crate) function: Option<FunctionHandler>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Idempotency {
    pub(crate) table: String,
    pub(crate) key: Option<String>,
    pub(crate) validate: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) format: Option<RecordFormat>,
    pub(crate) lease: Option<Span>,
    pub(crate) expires_after: Option<Span>,
    pub(crate) on_unknown: Option<OnUnknown>,
    pub(crate) on_missing_key: Option<OnMissingKey>,
    pub(crate) attributes: Option<RecordAttributes>,
}

/// `"https://…"`, or a table of URLs by class: `{ permanent = "https://…", default = "https://…" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeadLetterQueues(pub(crate) BTreeMap<String, String>);

/// `"full-jitter"`, or a table of parts.
#[derive(Debug)]
pub(crate) enum Policy {
    Single(String),
    Parts(Box<Parts>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Parts {
    pub(crate) classifier: Option<Part>,
    pub(crate) backoff: Option<Part>,
    pub(crate) dead_lettering: Option<Part>,
}

/// `"linear"`, or `{ use = "linear", settings = { base = "2s" } }`.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) settings: SettingsTable,
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
    Idempotency: "a table with `table`, such as { table = \"idempotency\", key = \"/order/id\" }";
    Parts: "a table of `classifier`, `backoff` and `dead-lettering`";
    PartTable: "a table with `use` and `settings`";
}

impl<'de> Deserialize<'de> for DeadLetterQueues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = DeadLetterQueues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the URL of a queue, or a table of URLs by class such as { permanent = \"https://…\", default = \"https://…\" }")
            }

            fn visit_str<E>(self, url: &str) -> Result<DeadLetterQueues, E> {
                let mut queues = DeadLetterQueues::default();
                queues.set(None, url.to_owned());
                Ok(queues)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<DeadLetterQueues, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(table)).map(DeadLetterQueues)
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
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
                Ok(Policy::Single(name.to_owned()))
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
