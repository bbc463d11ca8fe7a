//! What goes wrong with a message and what the message is, as flags tell it: shared by the commands that put a failure before a policy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use backstop::config::{parse_pair, parse_span};
use backstop::policy::Payload;
use backstop_core::failure::{Error, Milliseconds};
use backstop_core::settings::merge_pairs;
use backstop_files::regular_file::{self, GIVEN};
use backstop_workbench::preset::{self, Preset};

/// A failure's error, and its message.
#[derive(Debug, Parser)]
pub(super) struct FailureArgs {
    /// A failure by its name, such as throttled; other flags change it. `backstop policy test --presets` lists them
    #[arg(long, value_name = "NAME", value_parser = preset::find)]
    preset: Option<&'static Preset>,

    /// The error's type or code [default: the preset's, or HTTP 503]
    #[arg(long)]
    code: Option<String>,

    /// The error's text
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// The HTTP status
    #[arg(long, value_name = "NUMBER")]
    status: Option<u16>,

    /// How long the failing service asked to be left alone
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    retry_after: Option<Duration>,

    /// Something else that the source of the error reports; may be repeated
    #[arg(long = "detail", value_name = "NAME=VALUE", value_parser = parse_pair)]
    details: Vec<(String, String)>,

    /// The ARN of the queue or the function
    #[arg(long, value_name = "ARN", default_value = "local:try")]
    pub(super) source: String,

    /// An attribute of the message; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) attributes: Vec<(String, String)>,

    /// The message's body, for a policy that looks into it
    #[arg(long, value_name = "FILE")]
    pub(super) payload: Option<PathBuf>,
}

impl FailureArgs {
    /// The error, within the bounds of the contract.
    pub(super) fn error(&self) -> Error {
        let named = self
            .preset
            .map_or_else(|| Error::new("HTTP 503", ""), Preset::error);
        let retry_after = self.retry_after.map(Milliseconds::from_duration);
        Error {
            code: self.code.clone().unwrap_or(named.code),
            message: self.message.clone().unwrap_or(named.message),
            status: self.status.or(named.status),
            retry_after: retry_after.or(named.retry_after),
            details: merge_pairs(&named.details, &self.details),
        }
        .within_bounds()
    }

    /// The message's body; empty where none is named.
    pub(super) fn payload(&self) -> anyhow::Result<Arc<Payload>> {
        let body = match &self.payload {
            Some(path) => regular_file::read_text_of_any(path, GIVEN)
                .with_context(|| format!("can't read the payload {}", path.display()))?,
            None => String::new(),
        };
        Ok(Arc::new(Payload::new(body)))
    }
}
