//! The flags of `backstop run` for work that is done once for each key.

use std::time::Duration;

use backstop::{Backstop, OnMissingKey, OnUnknown, RecordFormat};
use backstop_files::values::parse_span;
use clap::Args;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

/// A table that keeps work from being done twice.
#[derive(Debug, Args)]
#[command(next_help_heading = "Work that is done once for each key")]
pub(super) struct IdempotencyArgs {
    /// The DynamoDB table that records which messages are done: a repeated message is deleted without its work (host/docs/idempotency.md)
    #[arg(long, value_name = "TABLE", conflicts_with = "config")]
    idempotency_table: Option<String>,

    /// Where the key is in the body: a JSON pointer such as /order/id, or JMESPath [default: the message's original id]
    #[arg(long, value_name = "PATH", requires = "idempotency_table")]
    idempotency_key: Option<String>,

    /// What of the body has to be the same in a repeat: a JSON pointer or JMESPath
    #[arg(long, value_name = "PATH", requires = "idempotency_table")]
    idempotency_validate: Option<String>,

    /// What keys begin with [default: the queue's name]
    #[arg(long, value_name = "TEXT", requires = "idempotency_table")]
    idempotency_prefix: Option<String>,

    /// Whose records the table holds: those of Powertools for Python or for TypeScript [default: python]
    #[arg(long, value_name = "python|typescript", value_parser = parse::<RecordFormat>, requires = "idempotency_table")]
    idempotency_format: Option<RecordFormat>,

    /// How long work in progress is protected; renewed while it runs [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = parse_span, requires = "idempotency_table")]
    idempotency_lease: Option<Duration>,

    /// How long done work is remembered [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_span, requires = "idempotency_table")]
    idempotency_expires_after: Option<Duration>,

    /// What happens to work that may have been done, because its host crashed [default: retry]
    #[arg(long, value_name = "retry|dead-letter", value_parser = parse::<OnUnknown>, requires = "idempotency_table")]
    idempotency_on_unknown: Option<OnUnknown>,

    /// What happens to a message without a key [default: error]
    #[arg(long, value_name = "error|not-idempotent", value_parser = parse::<OnMissingKey>, requires = "idempotency_table")]
    idempotency_on_missing_key: Option<OnMissingKey>,
}

impl IdempotencyArgs {
    /// Sets them on the queue of the flags.
    pub(super) fn set(&self, host: Backstop) -> Backstop {
        host.with(self.idempotency_table.as_deref(), Backstop::idempotency)
            .with(self.idempotency_key.as_deref(), Backstop::idempotency_key)
            .with(
                self.idempotency_validate.as_deref(),
                Backstop::idempotency_validate,
            )
            .with(
                self.idempotency_prefix.as_deref(),
                Backstop::idempotency_prefix,
            )
            .with(self.idempotency_format, Backstop::idempotency_format)
            .with(self.idempotency_lease, Backstop::idempotency_lease)
            .with(
                self.idempotency_expires_after,
                Backstop::idempotency_expires_after,
            )
            .with(self.idempotency_on_unknown, Backstop::on_unknown)
            .with(self.idempotency_on_missing_key, Backstop::on_missing_key)
    }
}

/// A value by its name in a configuration.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let name: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(name).map_err(|error| error.to_string())
}
