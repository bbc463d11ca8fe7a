//! What goes wrong with a message and what the message is, as flags tell it: shared by the commands that put a failure before a policy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::config::{parse_settings, parse_span};
use crate::failure::{Error, Milliseconds};
use crate::policy::Payload;

/// A failure's error, and its message.
#[derive(Debug, Parser)]
pub(super) struct Told {
    /// The error's type or code
    #[arg(long, default_value = "HTTP 503")]
    pub(super) code: String,

    /// The error's text
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,

    /// The HTTP status
    #[arg(long, value_name = "NUMBER")]
    status: Option<u16>,

    /// How long the failing service asked to be left alone
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    retry_after: Option<Duration>,

    /// Something else that the source of the error reports; may be repeated
    #[arg(long = "detail", value_name = "NAME=VALUE", value_parser = parse_settings)]
    details: Vec<(String, String)>,

    /// The ARN of the queue or the function
    #[arg(long, value_name = "ARN", default_value = "local:try")]
    pub(super) source: String,

    /// An attribute of the message; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_settings)]
    pub(super) attributes: Vec<(String, String)>,

    /// The message's body, for a policy that looks into it
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
}

impl Told {
    /// The error, within the bounds of the contract.
    pub(super) fn error(&self) -> Error {
        Error {
            status: self.status,
            retry_after: self.retry_after.map(Milliseconds::from_duration),
            details: self.details.clone(),
            ..Error::new(self.code.clone(), self.message.clone())
        }
        .within_bounds()
    }

    /// The message's body; empty where none is named.
    pub(super) fn payload(&self) -> anyhow::Result<Arc<Payload>> {
        let body = match &self.payload {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("can't read the payload {}", path.display()))?,
            None => String::new(),
        };
        Ok(Arc::new(Payload::new(body)))
    }
}
