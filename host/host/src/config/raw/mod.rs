//! The raw form of a configuration: its keys, with the names and types of their values before they are checked. Each key has one entry, in the file of its table. A file is deserialized into the tables; the builder, flags and environment variables set their fields. It is converted once, one level up.
//!
//! The flags, the variables, the methods of the builder, the names that errors give to values, the tables of `host/docs/deploy/configuration.md` and the schema for editors come from the entries: [`keys`](super::keys) says how.

mod admin_proxy;
mod breaker;
mod config;
mod dead_letter_queues;
mod handler;
mod idempotency;
mod lambda;
mod limit_each;
mod limits;
mod pause;
mod policies;
mod policy;
mod queue;

// What the files of the tables share: the names in the expansion of `table!`, and the types of values.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::keys::{
    AtOnce, Flag, Key, RawValue, Spot, argument, meaning, method, override_by, ranges, raw_value,
    schema_of, table, typed,
};
use super::{
    AdminRole, BreakerOptions, ConfigError, EachOptions, FunctionHandler, InCommon, Places,
    RecordAttributes, RecordFormat, Variables, parse_endpoint,
};
use crate::Backstop;
use crate::builder::Change;
use crate::hold::HoldMode;
use crate::maintenance;
use crate::queue::VisibilityTimeout;
use crate::record::Recorded;
use backstop_core::idempotency::{OnMissingKey, OnUnknown};
use backstop_core::rate::Rate;
use backstop_files::only_tables;
use backstop_traces::Wish;

pub(crate) use super::keys::Table;
pub(crate) use admin_proxy::{AdminProxy, GroupRoles};
pub(crate) use backstop_files::values::{Bytes, Command, SettingsTable, Span};
pub(crate) use breaker::Breaker;
pub(crate) use config::{Config, Decisions};
pub(crate) use dead_letter_queues::DeadLetterQueues;
pub(crate) use handler::{Handler, WithHandlers};
pub(crate) use idempotency::Idempotency;
pub(crate) use lambda::Lambda;
pub(crate) use limit_each::LimitEach;
pub(crate) use limits::{CompileLimits, Limits};
pub(crate) use pause::{Window, Windows};
pub(crate) use policies::{Policies, Rollback};
pub(crate) use policy::{Part, Parts, Policy};
pub use queue::Options;
pub(crate) use queue::Queue;

/// A list of texts.
pub(crate) type Texts = Vec<String>;

/// The queues by name.
pub(crate) type Queues = BTreeMap<String, Queue>;
