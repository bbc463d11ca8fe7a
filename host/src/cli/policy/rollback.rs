//! `backstop policy rollback` and `backstop policy status`: what running hosts decide with, and back to the version before.

use std::path::{Path, PathBuf};

use anstream::println;
use anstyle::{AnsiColor, Style};
use anyhow::{Context, anyhow};
use clap::Parser;

use crate::cli::exit::NoHost;
use crate::config::{Cache, Config};
use crate::control::{self, Answer, QueueStatus, Request};

const ROLLBACK: &str = "\
Examples:
  Take the versions that decide on this machine back, for the good ones before them:
    backstop policy rollback

  One queue's, of a host that keeps its policies where its configuration says:
    backstop policy rollback orders --config backstop.toml

A version that was taken back is not tried again, not even by the next start, until its source has another one.
A version that breaks at work is taken back by itself: see roll-back in host/docs/configuration.md.";

const STATUS: &str = "\
Examples:
  What decides on this machine:
    backstop policy status

  For a script:
    backstop policy status --json | jq '.queues[] | {queue, title: .policy.title}'";

/// Where running hosts keep their policies.
#[derive(Debug, Parser)]
struct Where {
    /// The folder in which the host keeps its policies [default: the user's own, or BACKSTOP_CACHE]
    #[arg(
        long,
        value_name = "FOLDER",
        env = "BACKSTOP_CACHE",
        conflicts_with = "config"
    )]
    cache: Option<PathBuf>,

    /// The host's configuration, which may name that folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print what each host says as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Take the version that decides back, for the good one before it, in hosts that run on this machine
///
/// At once, with messages flowing: decisions under way finish on the version that they began with.
#[derive(Debug, Parser)]
#[command(after_long_help = ROLLBACK)]
pub(super) struct RollbackArgs {
    /// The queues whose policy is meant [default: all]
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    #[command(flatten)]
    host: Where,
}

/// Show which versions decide in the hosts that run on this machine
#[derive(Debug, Parser)]
#[command(after_long_help = STATUS)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    host: Where,
}

pub(super) fn roll_back(args: RollbackArgs) -> anyhow::Result<()> {
    let request = Request::RollBack {
        queues: args.queues,
    };
    let answers = args.host.ask(&request)?;
    let queues = || answers.iter().flat_map(|answer| &answer.queues);
    if let Request::RollBack { queues: named } = &request
        && let Some(unknown) = named
            .iter()
            .find(|name| !queues().any(|queue| queue.queue == **name))
    {
        return Err(NoHost(format!(
            "no host that runs here serves the queue `{unknown}`"
        ))
        .into());
    }
    args.host.show(&answers)?;
    let refused = queues().find_map(|queue| match &queue.rolled_back {
        Some(Err(why)) => Some(anyhow!("queue `{}`: {why}", queue.queue)),
        Some(Ok(_)) | None => None,
    });
    refused.map_or(Ok(()), Err)
}

pub(super) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let answers = args.host.ask(&Request::Status)?;
    args.host.show(&answers)
}

impl Where {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let cache = match (&self.cache, &self.config) {
            (Some(folder), _) => Cache::Folder(folder.clone()),
            (None, Some(path)) => Config::read(path)?.policies.cache,
            (None, None) => Cache::User,
        };
        cache
            .folder()
            .context("there is no folder in which hosts keep their policies: name one with --cache")
    }

    fn ask(&self, request: &Request) -> anyhow::Result<Vec<Answer>> {
        let folder = self.folder()?;
        let asked = control::ask(&folder, request);
        let answers =
            asked.with_context(|| format!("can't ask the hosts of {}", folder.display()))?;
        if answers.is_empty() {
            return Err(none_in(&folder).into());
        }
        Ok(answers)
    }

    fn show(&self, answers: &[Answer]) -> anyhow::Result<()> {
        for answer in answers {
            if self.json {
                println!("{}", serde_json::to_string(answer)?);
                continue;
            }
            for queue in &answer.queues {
                show(answer.process, queue);
            }
        }
        Ok(())
    }
}

fn none_in(folder: &Path) -> NoHost {
    NoHost(format!(
        "no host runs that keeps its policies in {}: `backstop run` does so unless it is given another --cache or `cache` in its configuration; name that folder with --cache, or the configuration with --config",
        folder.display()
    ))
}

fn show(process: u32, queue: &QueueStatus) {
    let bold = Style::new().bold();
    let red: Style = AnsiColor::Red.on_default();
    let green: Style = AnsiColor::Green.on_default();
    let status = &queue.policy;
    println!("{bold}{}{bold:#}  process {process}", queue.queue);
    let line = |name: &str, value: &str| println!("  {name:<9} {value}");
    match &queue.rolled_back {
        Some(Ok(rolled_back)) => line(
            "back",
            &format!(
                "{green}from {} to {}{green:#}",
                rolled_back.from, rolled_back.to
            ),
        ),
        Some(Err(why)) => line("back", &format!("{red}{why}{red:#}")),
        None => {}
    }
    line(
        "live",
        &format!("{}, since {}", status.title, status.since.rfc3339()),
    );
    line("before", status.before.as_deref().unwrap_or("none"));
    line("source", &status.sources.join(" + "));
    if let Some(refused) = &status.refused {
        line("refused", &format!("{red}{refused}{red:#}"));
    }
    if let Some(away) = &status.away {
        line("away", &format!("{red}{away}{red:#}"));
    }
}
