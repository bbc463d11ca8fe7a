//! The flags that describe a failure, shared by the commands that pass one to a policy, and its description in one line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Error, Failure, Milliseconds};
use backstop_core::settings::{merge_pairs, parse_pair};
use backstop_engine::Payload;
use backstop_files::regular_file::{self, GIVEN};
use backstop_files::values::{parse_between, parse_span};
use backstop_workbench::preset::{self, Preset};
use clap::Parser;

use crate::error::{Result, unreadable};

/// An error, and the message whose processing failed with it.
#[derive(Debug, Parser)]
pub(super) struct FailureArgs {
    /// A named failure, such as throttled; other flags change it. `backstop policy test --presets` lists the names
    #[arg(long, value_name = "NAME", value_parser = preset::find)]
    preset: Option<&'static Preset>,

    /// The type or code of the error [default: the preset's, or HTTP 503]
    #[arg(long)]
    code: Option<String>,

    /// The message of the error
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// The HTTP status
    #[arg(long, value_name = "NUMBER", value_parser = parse_between::<100, 999, u16>)]
    status: Option<u16>,

    /// The delay that the failing service asked for, as in a Retry-After header
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    retry_after: Option<Duration>,

    /// Another detail that the source of the error reports; may be repeated
    #[arg(long = "detail", value_name = "NAME=VALUE", value_parser = parse_pair)]
    details: Vec<(String, String)>,

    /// The ARN of the queue or the function
    #[arg(long, value_name = "ARN", default_value = "local:try")]
    pub(super) source: String,

    /// An attribute of the message; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) attributes: Vec<(String, String)>,

    /// The body of the message, for a policy that reads it
    #[arg(long, value_name = "FILE")]
    pub(super) payload: Option<PathBuf>,
}

impl FailureArgs {
    /// The error, truncated to the limits of the contract.
    pub(super) fn error(&self) -> Error {
        let preset = self
            .preset
            .map_or_else(|| Error::new("HTTP 503", ""), Preset::error);
        let retry_after = self.retry_after.map(Milliseconds::from_duration);
        let code = self.code.clone().unwrap_or(preset.code);
        Error::new(code, self.message.clone().unwrap_or(preset.message))
            .status(self.status.or(preset.status))
            .retry_after(retry_after.or(preset.retry_after))
            .details(merge_pairs(&preset.details, &self.details))
            .within_bounds()
    }

    /// The body of the message; empty if no flag names a file.
    pub(super) fn payload(&self) -> Result<Arc<Payload>> {
        let body = match &self.payload {
            Some(path) => regular_file::read_text_of_any(path, GIVEN)
                .map_err(unreadable("the payload", path))?,
            None => String::new(),
        };
        Ok(Arc::new(Payload::new(body)))
    }
}

/// The attempt, the age, the error and the random number of a failure.
pub(super) fn describe(failure: &Failure) -> String {
    let Failure {
        attempt,
        age,
        error,
        ..
    } = failure;
    let status = error
        .status
        .map_or_else(String::new, |status| format!(" (HTTP {status})"));
    format!(
        "attempt {attempt}, {age} old: {error}{status}; random {:.3}",
        failure.random
    )
}
