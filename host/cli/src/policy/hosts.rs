//! The running hosts of this machine: how commands find them, query them and show their responses.

use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use backstop::internal::config::{Cache, Config};
use backstop::internal::control::{self, QueueStatus, Request, Response};
use backstop_core::text::one_line;
use clap::Parser;

use crate::error::{CommandError, Context, Result};
use crate::output::println;

/// Which hosts to query.
#[derive(Debug, Parser)]
pub(super) struct HostArgs {
    /// The folder in which the hosts store their policies [default: the user's cache folder, or BACKSTOP_CACHE]
    #[arg(long, value_name = "FOLDER", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// The configuration of the hosts; a cache folder that it names takes precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the answer of each host as JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl HostArgs {
    fn folder(&self) -> Result<PathBuf> {
        let configured = match &self.config {
            Some(path) => Config::read(path)?.policies.cache,
            None => Cache::User,
        };
        let cache = match (configured, &self.cache) {
            (Cache::User, Some(cache)) => Cache::parse(cache, Path::new("")),
            (configured, _) => configured,
        };
        cache.folder().ok_or_else(|| {
            CommandError::NoHost(
                "hosts without a cache can't be found: name the cache folder of a host with --cache".to_owned(),
            )
        })
    }

    /// The responses of all hosts. A host that does not answer is logged and skipped.
    pub(super) fn request(&self, request: &Request) -> Result<Vec<Response>> {
        let folder = self.folder()?;
        let results = control::request(&folder, request)
            .with_context(|| format!("can't query the hosts that use {}", folder.display()))?;
        let mut responses = Vec::new();
        for result in results {
            match result {
                Ok(response) => responses.push(response),
                Err(error) => tracing::warn!(%error, "a host does not answer"),
            }
        }
        if responses.is_empty() {
            return Err(none_in(&folder));
        }
        Ok(responses)
    }

    /// Prints the responses.
    pub(super) fn print(&self, responses: &[Response]) -> Result<()> {
        for response in responses {
            if self.json {
                println!("{}", serde_json::to_string(response)?);
                continue;
            }
            for queue in &response.queues {
                print_queue(response.process, queue);
            }
        }
        Ok(())
    }
}

/// The queues of all hosts.
pub(super) fn queues(responses: &[Response]) -> impl Iterator<Item = &QueueStatus> {
    responses.iter().flat_map(|response| &response.queues)
}

fn none_in(folder: &Path) -> CommandError {
    CommandError::NoHost(format!(
        "no running host uses the cache folder {}: if `backstop run` was started with another --cache, or with `cache` in its configuration, name that folder with --cache or the configuration with --config",
        folder.display()
    ))
}

fn print_queue(process: u32, queue: &QueueStatus) {
    let bold = Style::new().bold();
    let red: Style = AnsiColor::Red.on_default();
    let green: Style = AnsiColor::Green.on_default();
    let status = &queue.policy;
    println!(
        "{bold}{}{bold:#}  process {process}",
        one_line(&queue.queue)
    );
    let styled = |name: &str, style: Style, value: &str| {
        println!("  {name:<11} {style}{}{style:#}", one_line(value));
    };
    let line = |name: &str, value: &str| styled(name, Style::new(), value);
    match &queue.rolled_back {
        Some(Ok(rolled_back)) => styled(
            "rolled back",
            green,
            &format!("from {} to {}", rolled_back.from, rolled_back.to),
        ),
        Some(Err(reason)) => styled("rolled back", red, &format!("no: {reason}")),
        None => {}
    }
    line(
        "active",
        &format!("{}, since {}", status.title, status.since.rfc3339()),
    );
    line("previous", status.before.as_deref().unwrap_or("none"));
    let checked = status.checked.rfc3339();
    line(
        "source",
        &format!("{}, checked at {checked}", status.sources.join(" + ")),
    );
    if let Some(compiling) = &status.compiling {
        let since = compiling.since.rfc3339();
        line(
            "compiling",
            &format!("{}, since {since}", compiling.version),
        );
    }
    if let Some(refused) = &status.refused {
        styled("rejected", red, refused);
    }
    if let Some(unreachable) = &status.unreachable {
        styled("unreachable", red, unreachable);
    }
}
