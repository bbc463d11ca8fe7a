//! What there is to know of a key. A file of [`raw`] has an entry for each, which [`table!`](table) turns into a field, a method of the builder and a [`Key`]; flags, variables and documents come from the [`keys`].

mod at_once;
mod bounds;
mod document;
mod flag;
mod schema;
mod table;
mod typed;
mod typescript;
mod value;

use std::ops::RangeInclusive;

use serde_json::Value;

use super::raw;
use crate::Backstop;

pub use at_once::AtOnce;
pub(super) use bounds::ranges;
pub use document::rows_of;
pub use flag::Flag;
pub use schema::schema;
pub(super) use schema::schema_of;
pub(crate) use table::Table;
pub(super) use table::{argument, method, raw_value, table};
pub(super) use typed::{Spot, Typed, meaning, typed};
pub(crate) use typescript::options;
pub use typescript::options_in_typescript;
pub(super) use value::{RawValue, override_by};

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The table that it is in, such as `queues.NAME`; empty at the top level.
    pub table: &'static str,
    /// Its field, such as `max_polls` for `max-polls`.
    pub(super) field: &'static str,
    /// What it says, in the documentation of its method.
    pub(super) sentence: &'static str,
    /// What `configuration.md` says in place of the sentence.
    pub(super) row: &'static str,
    /// The value that it has if nobody sets it, as in a file; empty if there is none.
    pub default: &'static str,
    /// What `configuration.md` says in place of the default.
    pub(super) shown: &'static str,
    /// What a number, a duration or a size may be, such as `1 to 100`, and after a comma or a colon why. `{bounds}` in its row stands for it, without the reason.
    pub(super) bounds: &'static str,
    /// The method of the builder that sets it.
    pub(super) method: &'static str,
    /// The environment variable of the Lambda retry handler that sets it.
    pub(super) variable: &'static str,
    /// The flag of `backstop run` that sets it.
    pub flag: Option<Flag>,
    /// What a running host changes when the key changes in its file. Its values are logged, so it has no secrets. Without it, the key needs a restart, and only its name is logged.
    pub at_once: Option<AtOnce>,
    /// Whether it is in a file, and not for programs alone.
    pub(super) is_in_files: bool,
    /// Sets it by the texts of its flag.
    pub(super) apply: fn(Backstop, &[String]) -> Result<Backstop, String>,
    /// Checks a text of its flag.
    pub(super) check: fn(&Key, &str) -> Result<(), String>,
    /// The sizes that a text of bounds allows.
    pub(super) ranges: fn(&str) -> Option<Vec<RangeInclusive<u128>>>,
    /// Whether a file has to have it.
    pub(super) is_required: bool,
    pub(super) schema: fn() -> Value,
}

/// All keys.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    [
        raw::Queue::KEYS,
        raw::Handler::KEYS,
        raw::Idempotency::KEYS,
        raw::Breaker::KEYS,
        raw::LimitEach::KEYS,
        raw::Policies::KEYS,
        raw::Rollback::KEYS,
        raw::Config::KEYS,
        raw::AdminProxy::KEYS,
        raw::Decisions::KEYS,
        raw::Limits::KEYS,
        raw::CompileLimits::KEYS,
        raw::Lambda::KEYS,
    ]
    .into_iter()
    .flatten()
}

impl Key {
    /// Its name in a file, such as `max-polls`.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Its full name, such as `queues.NAME.max-polls`.
    pub fn path(&self) -> String {
        self.path_in(self.table)
    }

    /// Its full name in a table with this name, such as `queues.orders`.
    pub(super) fn path_in(&self, table: &str) -> String {
        match table {
            "" => self.name(),
            table => format!("{table}.{}", self.name()),
        }
    }

    /// Checks a text of the flag.
    pub fn check(&self, text: &str) -> Result<(), String> {
        (self.check)(self, text)
    }

    /// Sets the value by texts, as those of a flag, whether or not it has one.
    pub(crate) fn set(&self, host: Backstop, texts: &[String]) -> Result<Backstop, String> {
        (self.apply)(host, texts)
    }

    /// What sets it in a program: the name of its method or, of a queue's key whose method has another one, its own.
    pub(crate) fn option(&self) -> Option<&'static str> {
        match (self.table, self.method) {
            ("lambda" | "admin-proxy", _) => None,
            (_, "" | "handler" | "queue" | "rollback" | "maintenance_window") => None,
            ("queues.NAME", _) => Some(self.field),
            (_, method) => Some(method),
        }
    }

    /// Sets the value by the texts of the flag.
    pub fn apply(&self, host: Backstop, texts: &[String]) -> Result<Backstop, String> {
        (self.apply)(host, texts).map_err(|expected| match self.flag {
            Some(flag) => format!("--{}: {expected}", flag.name),
            None => expected,
        })
    }
}
