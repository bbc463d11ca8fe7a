//! The running hosts that a command concerns: those of this machine, or those at URLs.

use std::path::{Path, PathBuf};

use backstop_core::text::chain;
use backstop_host::admin::{ClientError, Host, HostStatus, Token};
use backstop_host::config::{Cache, Config};
use clap::Parser;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::error::{CommandError, Context, Result};
use crate::terminal::println;

/// The configuration of a command that names none, if this folder has it.
pub(crate) const DEFAULT_CONFIG: &str = "backstop.toml";

/// The configuration in this folder, if there is one.
pub(crate) fn default_config() -> Option<PathBuf> {
    let path = PathBuf::from(DEFAULT_CONFIG);
    path.is_file().then_some(path)
}

/// Which hosts to query.
#[derive(Debug, Parser)]
pub(crate) struct HostArgs {
    #[command(flatten)]
    place: HostPlace,

    /// The configuration of the hosts; a cache folder that it names takes precedence [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
}

/// Where hosts are, for commands whose `--config` means something else too.
#[derive(Debug, Parser)]
pub(crate) struct HostPlace {
    /// The folder in which the hosts store their policies [default: the user's cache folder, or BACKSTOP_CACHE]
    #[arg(long, value_name = "FOLDER", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// Query the host with this admin interface, such as http://10.0.0.7:9465, instead of those of this machine. May be repeated. The token is in BACKSTOP_ADMIN_TOKEN or in --admin-token-file
    #[arg(long, value_name = "URL")]
    admin: Vec<String>,

    /// The file with the token of --admin
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,
}

impl HostArgs {
    /// The running hosts: at least one. A host whose socket can't be used is logged and skipped.
    pub(crate) fn hosts(&self) -> Result<Vec<Host>> {
        self.place.hosts(self.config.as_deref())
    }

    /// The hosts that serve a queue: at least one.
    pub(crate) fn serving(&self, queue: &str) -> Result<Vec<Host>> {
        let hosts = self.hosts()?;
        let serving = each(&hosts, status)?.into_iter();
        let serving = serving.filter(|(_, status)| serves(status, queue));
        let serving: Vec<_> = serving.map(|(host, _)| host.clone()).collect();
        if serving.is_empty() {
            return Err(not_served(queue).into());
        }
        Ok(serving)
    }

    /// Whether the hosts are those of this machine.
    pub(crate) const fn is_this_machine(&self) -> bool {
        self.place.is_this_machine()
    }
}

/// The status of a host.
pub(crate) async fn status(host: &Host) -> Result<HostStatus, ClientError> {
    host.get(&["v1", "status"], &[]).await
}

/// Whether a host serves a queue.
pub(crate) fn serves(status: &HostStatus, queue: &str) -> bool {
    status.queues.iter().any(|it| it.queue == queue)
}

/// No running host was found, or none serves the queue.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoHost(pub(crate) String);

/// No host serves a queue.
pub(crate) fn not_served(queue: &str) -> NoHost {
    NoHost(format!("no running host serves the queue `{queue}`"))
}

/// Prints the answer of each host as JSON, one object a line.
pub(crate) fn print_each<H, T: Serialize>(answers: &[(H, T)]) -> Result<()> {
    for (_, answer) in answers {
        println!("{}", serde_json::to_string(answer)?);
    }
    Ok(())
}

impl HostPlace {
    /// The running hosts, whose configuration this is: at least one. A host whose socket can't be used is logged and skipped.
    pub(crate) fn hosts(&self, config: Option<&Path>) -> Result<Vec<Host>> {
        if !self.admin.is_empty() {
            let token = match &self.admin_token_file {
                Some(path) => Some(Token::read(path)?),
                None => Token::from_environment()?,
            };
            let hosts = self.admin.iter().map(|url| Host::at(url, token.clone()));
            return Ok(hosts.collect::<Result<_, _>>()?);
        }
        let folder = self.folder(config)?;
        let found = Host::on_this_machine(&folder)
            .with_context(|| format!("can't query the hosts that use {}", folder.display()))?;
        let mut hosts = Vec::new();
        for host in found {
            match host {
                Ok(host) => hosts.push(host),
                Err(error) => tracing::warn!(%error, "a host does not answer"),
            }
        }
        if hosts.is_empty() {
            Err(none_in(&folder).into())
        } else {
            Ok(hosts)
        }
    }

    /// Like [`HostPlace::hosts`], but no host of this machine is fine too.
    pub(crate) fn running(&self, config: Option<&Path>) -> Result<Vec<Host>> {
        match self.hosts(config) {
            Err(CommandError { error, .. }) if self.is_this_machine() && error.is::<NoHost>() => {
                tracing::debug!(%error, "no host is asked");
                Ok(Vec::new())
            }
            found => found,
        }
    }

    /// Whether the hosts are those of this machine.
    pub(crate) const fn is_this_machine(&self) -> bool {
        self.admin.is_empty()
    }

    fn folder(&self, config: Option<&Path>) -> Result<PathBuf> {
        let configured = match config {
            Some(path) => Config::read(path)?.policies.cache,
            None => match default_config().filter(|_| self.cache.is_none()) {
                Some(path) => Config::read(&path)?.policies.cache,
                None => Cache::User,
            },
        };
        let cache = match (configured, &self.cache) {
            (Cache::User, Some(cache)) => Cache::parse(cache, Path::new("")),
            (configured, _) => configured,
        };
        let unknown =
            "hosts without a cache can't be found: name the cache folder of a host with --cache";
        Ok(cache.folder().ok_or_else(|| NoHost(unknown.to_owned()))?)
    }
}

/// Makes one query for each item, such as each host, all at once; blocks. A host that gives no answer is logged and skipped; if none does, the first error is returned. A host that has ended meanwhile is none.
pub(crate) fn each<'a, I, T>(
    items: &'a [I],
    query: impl AsyncFn(&'a I) -> Result<T, ClientError>,
) -> Result<Vec<(&'a I, T)>> {
    let queries = items.iter().map(async |item| (item, query(item).await));
    let results = Handle::current().block_on(join_all(queries));
    let mut answers = Vec::new();
    let (mut errors, mut ended) = (Vec::new(), Vec::new());
    for (host, result) in results {
        match result {
            Ok(answer) => answers.push((host, answer)),
            Err(error @ ClientError::Ended { .. }) => {
                tracing::debug!(%error, "a host is not asked");
                ended.push(error);
            }
            Err(error) => errors.push(error),
        }
    }
    if answers.is_empty()
        && let Some(first) = errors.drain(..).next()
    {
        return Err(first.into());
    }
    if answers.is_empty()
        && let Some(last) = ended.pop()
    {
        return Err(NoHost(format!("{last}: no host is left")).into());
    }
    for error in errors {
        tracing::warn!(error = chain(&error), "a host does not answer");
    }
    Ok(answers)
}

fn none_in(folder: &Path) -> NoHost {
    NoHost(format!(
        "no running host uses the cache folder {}: if `backstop run` was started with another --cache, or with `cache` in its configuration, name that folder with --cache or the configuration with --config; a host on another machine is named by --admin",
        folder.display()
    ))
}
