//! The running hosts that a command concerns: those of this machine, or those at URLs.

use std::cell::RefCell;
use std::env::VarError;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use backstop_core::text::{chain, one_line};
use backstop_host::admin::{ClientError, Host, HostStatus, Token};
use backstop_host::config::{Cache, Config};
use clap::Parser;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::error::{CommandError, Context, Exit, Result};
use crate::terminal::println;

/// The environment variable with the URLs of hosts.
const ADMIN_VARIABLE: &str = "BACKSTOP_ADMIN";

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

    /// The configuration of the hosts: those of its `fleet` or, without one, those of this machine, whose cache folder it names [default: the cache folder of backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,

    /// Print the answer of each host as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where hosts are, for commands whose `--config` means something else too.
#[derive(Debug, Clone, Parser)]
pub(crate) struct HostPlace {
    /// The folder in which the hosts store their policies [default: the user's cache folder, or BACKSTOP_CACHE]
    #[arg(long, value_name = "FOLDER", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// Query the host with this admin interface, such as http://10.0.0.7:9465, instead of those of this machine; dns+http://backstop:9465 is every host behind a name. May be repeated [default: those of BACKSTOP_ADMIN, separated by commas, then those of `fleet` in --config]. The token is in BACKSTOP_ADMIN_TOKEN or in --admin-token-file
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    admin: Vec<String>,

    /// The file with the token of these hosts
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

/// Hosts at URLs.
struct Elsewhere {
    urls: Vec<String>,
    /// The file of the token that their configuration names.
    token_file: Option<PathBuf>,
}

/// The hosts that a command concerns, and those of them that have not answered it.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    live: Vec<Host>,
    missed: RefCell<Vec<String>>,
}

impl Deref for Hosts {
    type Target = [Host];

    fn deref(&self) -> &[Host] {
        &self.live
    }
}

impl HostArgs {
    /// The running hosts: at least one. A host that does not answer is logged and skipped.
    pub(crate) fn hosts(&self) -> Result<Hosts> {
        self.place.hosts(self.config.as_deref())
    }

    /// The hosts that serve a queue: at least one.
    pub(crate) fn serving(&self, queue: &str) -> Result<Hosts> {
        let hosts = self.hosts()?;
        let serving = hosts.each(status)?.into_iter();
        let serving = serving.filter(|(_, status)| serves(status, queue));
        let live: Vec<_> = serving.map(|(host, _)| host.clone()).collect();
        if live.is_empty() {
            return Err(not_served(queue).into());
        }
        Ok(Hosts { live, ..hosts })
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
    /// The running hosts, whose configuration this is: at least one. A host that does not answer is logged and skipped.
    pub(crate) fn hosts(&self, config: Option<&Path>) -> Result<Hosts> {
        let found = match self.elsewhere(config)? {
            Some(elsewhere) => self.at(elsewhere)?,
            None => self.on_this_machine(config)?,
        };
        let lives = found.each(Host::lives)?.into_iter();
        let live: Vec<_> = lives.map(|(host, ())| host.clone()).collect();
        Ok(Hosts { live, ..found })
    }

    /// Those of `--admin`, of its variable, or of the configuration. That has to be named: a token must not go where a file says that happens to be in this folder.
    fn elsewhere(&self, config: Option<&Path>) -> Result<Option<Elsewhere>> {
        let at = |urls| {
            let token_file = None;
            Ok(Some(Elsewhere { urls, token_file }))
        };
        if !self.admin.is_empty() {
            return at(self.admin.clone());
        }
        let urls = urls_of_variable()?;
        let config = config.map(Config::read).transpose()?;
        let config = config.filter(|config| !config.fleet.is_empty());
        if !urls.is_empty() && config.is_some() {
            return Err(Exit::Usage.because(format!(
                "{ADMIN_VARIABLE} and `fleet` of --config both name hosts: unset the variable, or name the hosts with --admin"
            )));
        }
        if !urls.is_empty() {
            return at(urls);
        }
        Ok(config.map(|Config { fleet, admin, .. }| Elsewhere {
            urls: fleet,
            token_file: admin.and_then(|admin| admin.token_file),
        }))
    }

    fn at(&self, Elsewhere { urls, token_file }: Elsewhere) -> Result<Hosts> {
        // The file that names the hosts also says which token is theirs: that of the environment may be for others.
        let token = match self.admin_token_file.as_ref().or(token_file.as_ref()) {
            Some(path) => Some(Token::read(path)?),
            None => Token::from_environment()?,
        };
        let mut hosts = Hosts::default();
        for url in &urls {
            let found = Host::all_at(url, token.clone());
            hosts.live.extend(Handle::current().block_on(found)?);
        }
        Ok(hosts)
    }

    fn on_this_machine(&self, config: Option<&Path>) -> Result<Hosts> {
        if self.admin_token_file.is_some() {
            return Err(Exit::Usage.because("--admin-token-file is for hosts at URLs, which --admin, BACKSTOP_ADMIN or `fleet` in --config name: those of this machine need no token"));
        }
        let folder = self.folder(config)?;
        let found = Host::on_this_machine(&folder)
            .with_context(|| format!("can't query the hosts that use {}", folder.display()))?;
        let mut hosts = Hosts::default();
        for host in found {
            match host {
                Ok(host) => hosts.live.push(host),
                Err(error) => hosts.miss(&error.to_string()),
            }
        }
        if hosts.is_empty() {
            Err(none_in(&folder).into())
        } else {
            Ok(hosts)
        }
    }

    /// Like [`HostPlace::hosts`], but no host of this machine is fine too.
    pub(crate) fn running(&self, config: Option<&Path>) -> Result<Hosts> {
        match self.hosts(config) {
            Err(CommandError { error, .. })
                if error.is::<NoHost>() && self.elsewhere(config)?.is_none() =>
            {
                tracing::debug!(%error, "no host is asked");
                Ok(Hosts::default())
            }
            found => found,
        }
    }

    /// The cache folder of the hosts of this machine.
    pub(crate) fn folder(&self, config: Option<&Path>) -> Result<PathBuf> {
        let configured = match config {
            Some(path) => Config::read(path)?.policies.cache,
            None => match default_config().filter(|_| self.cache.is_none()) {
                Some(path) => cache_of_folder(&path)?,
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

/// The URLs of the variable `BACKSTOP_ADMIN`, if it is set.
fn urls_of_variable() -> Result<Vec<String>> {
    match std::env::var(ADMIN_VARIABLE) {
        Ok(urls) => Ok(urls.split(',').map(|url| url.trim().to_owned()).collect()),
        Err(VarError::NotPresent) => Ok(Vec::new()),
        Err(VarError::NotUnicode(_)) => Err(Exit::Usage.because(format!(
            "{ADMIN_VARIABLE} is no text: expected URLs such as http://10.0.0.7:9465, separated by commas"
        ))),
    }
}

/// The cache of the configuration that this folder has.
fn cache_of_folder(path: &Path) -> Result<Cache> {
    let config = Config::read(path)?;
    if !config.fleet.is_empty() {
        let file = path.display();
        tracing::info!(%file, "these are hosts of this machine: `fleet` counts if --config names the file");
    }
    Ok(config.policies.cache)
}

impl Hosts {
    /// Makes one query to each host, all at once; blocks. See [`Hosts::each_of`].
    pub(crate) fn each<T>(
        &self,
        query: impl AsyncFn(&Host) -> Result<T, ClientError>,
    ) -> Result<Vec<(&Host, T)>> {
        self.each_of(&self.live, query)
    }

    /// Makes one query for each item, such as a host and what it is asked, all at once; blocks. A host that gives no answer is logged and counts as missed; if none does, the first error is returned. A host that has ended meanwhile is none.
    pub(crate) fn each_of<'a, I, T>(
        &self,
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
            self.miss(&chain(&error));
        }
        Ok(answers)
    }

    /// The hosts that have not answered, and why.
    pub(crate) fn missed(&self) -> Vec<String> {
        self.missed.borrow().clone()
    }

    /// A host has not answered.
    fn miss(&self, error: &str) {
        tracing::warn!(error, "a host does not answer");
        self.missed.borrow_mut().push(one_line(error));
    }

    /// The end of an action that this many hosts have carried out: an error if there are others.
    pub(crate) fn carried_out_by(&self, hosts: usize) -> Result<()> {
        let missed = self.missed.borrow();
        if missed.is_empty() {
            return Ok(());
        }
        Err(Exit::Partly.because(format!(
            "only {hosts} of {} hosts have carried it out. Repeat it for the others when they answer: {}",
            hosts + missed.len(),
            missed.join("; ")
        )))
    }
}

fn none_in(folder: &Path) -> NoHost {
    NoHost(format!(
        "no running host uses the cache folder {}: if `backstop run` was started with another --cache, or with `cache` in its configuration, name that folder with --cache or the configuration with --config; a host on another machine is named by --admin",
        folder.display()
    ))
}
