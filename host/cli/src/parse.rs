//! Parses the command line, and says in our own words what clap can't: where a configuration is, and what it excludes.

use std::path::Path;

use backstop_host::config::keys;
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::Cli;
use crate::hosts::{DEFAULT_CONFIG, default_config};

/// Parses the command line. Where a configuration is required, and none is named, that of this folder is the one, as if it were named.
pub(super) fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let error = match Cli::try_parse_from(&arguments) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return Err(error);
    }
    let Some(path) = default_config() else {
        return Err(without_file(error));
    };
    let named = ["--config".into(), path.clone().into_os_string()];
    let parsed = Cli::try_parse_from(arguments.into_iter().chain(named));
    parsed.map_err(|second| beside_file(&path, &second).unwrap_or(error))
}

/// If a queue or a configuration is missing: what to do where there is no file.
fn without_file(error: clap::Error) -> clap::Error {
    let missing = named(&error, ContextKind::InvalidArg);
    let has = |flag: &str| missing.iter().any(|it| it.contains(flag));
    if !(has("--config ") && has("--queue-url ")) {
        return error;
    }
    let functions = if has("--function ") {
        ", or --retry-queue or --function for a Lambda retry handler"
    } else {
        ""
    };
    let text = format!(
        "there is no {DEFAULT_CONFIG} in this folder: name one with --config, write one with `backstop init`, or give --queue-url and a handler{functions}\n"
    );
    clap::Error::raw(error.kind(), text)
}

/// If the command line has flags of a queue, which exclude the file of this folder: what to do with them.
fn beside_file(path: &Path, conflict: &clap::Error) -> Option<clap::Error> {
    let given = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let given = given.map(|kind| named(conflict, kind)).concat();
    let is_given = |flag: &str| {
        let given = given.iter().map(|it| it.split(' ').next());
        given
            .flatten()
            .any(|it| it.strip_prefix("--") == Some(flag))
    };
    let key = keys().find(|key| {
        key.flag
            .is_some_and(|flag| !flag.overrides_file && is_given(flag.name))
    })?;
    let name = key.path();
    let name = name.strip_prefix("queues.NAME.").unwrap_or(&name);
    let (flag, path) = (key.flag?.name, path.display());
    let text = format!(
        "--{flag} is for a queue that --queue-url names, and with such flags {path} is not read: set `{name}` in {path}, or give --queue-url and a handler, too\n"
    );
    (conflict.kind() == ErrorKind::ArgumentConflict)
        .then(|| clap::Error::raw(conflict.kind(), text))
}

/// The arguments that an error names, as they are in a usage.
fn named(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        Some(_) | None => Vec::new(),
    }
}
