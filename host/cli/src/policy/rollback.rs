//! `backstop policy rollback` and `backstop policy status`: what running hosts decide with, and back to the version before.

use std::path::{Path, PathBuf};

use crate::output::println;
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use clap::Parser;

use crate::exit::{NoHost, RollbackRefused};
use backstop::config::{Cache, Config};
use backstop::control::{self, Answer, QueueStatus, Request};
use backstop_core::text::one_line;

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
    #[arg(long, value_name = "FOLDER", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// The host's configuration; the folder that it names comes first
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
    // Nothing is taken back anywhere unless all that is named is there.
    let served = args.host.evaluate(&Request::Status)?;
    let serves = |name: &String| queues(&served).any(|queue| queue.queue == *name);
    if let Some(unknown) = args.queues.iter().find(|name| !serves(name)) {
        return Err(NoHost(format!(
            "no host that runs here serves the queue `{unknown}`: nothing was taken back"
        ))
        .into());
    }
    let answers = args.host.evaluate(&Request::RollBack {
        queues: args.queues,
    })?;
    args.host.show(&answers)?;
    let refused = queues(&answers).find_map(|queue| match &queue.rolled_back {
        Some(Err(why)) => Some(RollbackRefused(format!("queue `{}`: {why}", queue.queue))),
        Some(Ok(_)) | None => None,
    });
    refused.map_or(Ok(()), |refused| Err(refused.into()))
}

pub(super) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let answers = args.host.evaluate(&Request::Status)?;
    args.host.show(&answers)
}

fn queues(answers: &[Answer]) -> impl Iterator<Item = &QueueStatus> {
    answers.iter().flat_map(|answer| &answer.queues)
}

impl Where {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let named = match &self.config {
            Some(path) => Config::read(path)?.policies.cache,
            None => Cache::User,
        };
        let cache = match (named, &self.cache) {
            (Cache::User, Some(cache)) => Cache::parse(cache, Path::new("")),
            (named, _) => named,
        };
        cache
            .folder()
            .ok_or_else(|| NoHost("hosts keep no policies, and so can't be found: name the folder of one that does with --cache".to_owned()).into())
    }

    /// What every host says. One that does not answer is told, and hides no other.
    fn evaluate(&self, request: &Request) -> anyhow::Result<Vec<Answer>> {
        let folder = self.folder()?;
        let asked = control::request(&folder, request);
        let asked =
            asked.with_context(|| format!("can't ask the hosts of {}", folder.display()))?;
        let mut answers = Vec::new();
        for answer in asked {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => tracing::warn!(%error, "a host does not answer"),
            }
        }
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
    println!(
        "{bold}{}{bold:#}  process {process}",
        one_line(&queue.queue)
    );
    let styled = |name: &str, style: Style, value: &str| {
        println!("  {name:<9} {style}{}{style:#}", one_line(value));
    };
    let line = |name: &str, value: &str| styled(name, Style::new(), value);
    match &queue.rolled_back {
        Some(Ok(rolled_back)) => styled(
            "back",
            green,
            &format!("from {} to {}", rolled_back.from, rolled_back.to),
        ),
        Some(Err(why)) => styled("back", red, why),
        None => {}
    }
    line(
        "live",
        &format!("{}, since {}", status.title, status.since.rfc3339()),
    );
    line("before", status.before.as_deref().unwrap_or("none"));
    let looked = status.checked.rfc3339();
    line(
        "source",
        &format!("{}, looked at {looked}", status.sources.join(" + ")),
    );
    if let Some(compiling) = &status.compiling {
        let since = compiling.since.rfc3339();
        line(
            "compiling",
            &format!("{}, since {since}", compiling.version),
        );
    }
    if let Some(refused) = &status.refused {
        styled("refused", red, refused);
    }
    if let Some(away) = &status.unreachable {
        styled("away", red, away);
    }
}
