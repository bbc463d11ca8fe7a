//! The text of a configuration: read, parsed, and its mistakes explained.

use std::path::Path;

use super::{ConfigError, raw};
use backstop_backoff::SettingsError;
use backstop_files::mistake::{Mistake, unknown_key};
use backstop_files::regular_file::{self, WRITTEN};

/// What to do about a missing file.
const MISSING: &str = "correct the path, or write one with `backstop init`";

impl raw::Config {
    pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
        regular_file::read_text_of_any(path, WRITTEN).map_err(|cause| ConfigError::Unreadable {
            path: path.to_owned(),
            cause: regular_file::advise_if_missing(cause, || MISSING.to_owned()),
        })
    }

    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| syntax_error(text, path, &error))
    }

    pub(super) fn parse_complete(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw = Self::parse(text, path)?;
        match toml::from_str::<raw::WithHandlers>(text) {
            Ok(_) => Ok(raw),
            Err(error) => Err(syntax_error(text, path, &error)),
        }
    }
}

fn syntax_error(text: &str, path: &Path, error: &toml::de::Error) -> ConfigError {
    let mistake = Mistake::of(text, error);
    let mistake =
        if unknown_key(error).is_some_and(is_setting) && error.message().contains("`settings`") {
            mistake.advised("it is a setting of the policy, so write it into the table `settings`")
        } else {
            mistake
        };
    ConfigError::Syntax {
        path: path.to_owned(),
        text: mistake.to_string(),
    }
}

/// Whether the built-in policies have a setting of this name.
fn is_setting(name: &str) -> bool {
    let parsed = backstop_backoff::Settings::parse([(name, "")]);
    !matches!(parsed, Err(SettingsError::Unknown { .. }))
}
