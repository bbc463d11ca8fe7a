//! The configuration of a host.
//!
//! A file, the flags of the command line, environment variables and the methods of [`Backstop`](crate::Backstop) all fill the same raw form, which is checked and converted once, into [`Config`]. `host/docs/deploy/configuration.md` documents every key.

mod admin;
mod admin_proxy;
mod admin_role;
mod breaker;
mod changes;
mod dead_letter_queues;
mod decider;
mod decisions;
mod deployed;
mod idempotency;
mod in_common;
mod keys;
mod lambda;
mod limit_each;
mod limits;
mod options;
mod pause;
mod places;
mod policies;
mod policy;
mod queue;
pub(crate) mod raw;
mod same_queue;
mod shadow;
mod syntax;
mod url;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::raw::Table as _;
use crate::handler::{Handler, HttpOptions};
use crate::policy::{KeyError, Limits, SourceError};
use crate::record::{Destination, Recorded};
use backstop_files::mistake::place_of;
use backstop_traces::Wish;

pub use admin::AdminConfig;
pub use admin_proxy::AdminProxy;
pub use admin_role::AdminRole;
pub use backstop_core::idempotency::RecordFormat;
pub use breaker::BreakerOptions;
pub use changes::Reading;
pub(crate) use changes::{Change, changes};
pub use dead_letter_queues::DeadLetterQueues;
pub use decider::DeciderConfig;
pub(crate) use deployed::Deployed;
pub use deployed::LambdaFlags;
pub use idempotency::{IdempotencyConfig, RecordAttributes};
pub use in_common::InCommon;
pub(crate) use keys::options;
pub use keys::{AtOnce, Flag, Key, keys, options_in_typescript, rows_of, schema};
pub use lambda::{LambdaConfig, UNHINDERED_ATTEMPTS, Variables, unknown_variables, variables};
pub use limit_each::EachOptions;
pub(crate) use options::longest_linger;
pub(crate) use places::{Naming, Places};
pub use policies::{Cache, Policies};
pub use raw::Options;
pub(crate) use url::admin_url;
pub use url::parse_endpoint;

/// A configuration that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The endpoint for SQS, Lambda and S3, in place of the region's own.
    pub endpoint_url: Option<String>,
    /// Where decision records are written to.
    pub decisions: Option<Destination>,
    /// Which lines there are besides decisions.
    pub recorded: Recorded,
    /// The address at which metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Whether traces are sent; `None` if the environment decides.
    pub traces: Option<Wish>,
    /// Where the admin interface is served, and to whom.
    pub admin: Option<AdminConfig>,
    /// The URLs of the hosts that commands query. Empty for those of this machine.
    pub fleet: Vec<String>,
    /// What each policy component may use.
    pub limits: Limits,
    /// How policies are fetched, stored, verified and rolled back.
    pub policies: Policies,
    /// The queues to serve.
    pub queues: Vec<QueueConfig>,
    /// The Lambda retry handler, if there is one.
    pub lambda: Option<LambdaConfig>,
}

/// One queue to serve.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// Its name in logs, records and metrics.
    pub name: String,
    /// Its URL, or `local:NAME`.
    pub url: String,
    /// Its dead-letter queues. Without a default one, the queue of its redrive policy is used.
    pub dead_letter_queues: DeadLetterQueues,
    /// Does the work.
    pub handler: HandlerConfig,
    /// Keeps work from being done twice.
    pub idempotency: Option<IdempotencyConfig>,
    /// Decides about failures.
    pub decider: DeciderConfig,
    /// How messages are received.
    pub options: Options,
}

/// What handles the messages of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerConfig {
    /// A POST to a URL.
    Http(HttpOptions),
    /// A program and its arguments.
    Exec(String, Vec<String>),
    /// A Lambda function, by its name or ARN.
    Lambda(String),
    /// A function of this program.
    Function(FunctionHandler),
}

/// A handler in this program. It is equal to itself only.
#[derive(Debug, Clone)]
pub struct FunctionHandler(pub Arc<dyn Handler>);

impl PartialEq for FunctionHandler {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FunctionHandler {}

/// Why a configuration is invalid. The message names the value and what is expected of it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist, or may not be read.
    #[error("can't read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The file is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{}: {text}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The mistake, with its line and column, and the line itself.
        text: String,
    },
    /// A value is out of range or contradicts another one.
    #[error("{place}: {expected}")]
    Value {
        /// The full key, or the flag, variable or method that set it.
        place: String,
        /// What is expected.
        expected: String,
    },
    /// A public key is invalid.
    #[error("{place}")]
    Key {
        /// The full key, or the flag, variable or method that set it.
        place: String,
        /// The cause.
        #[source]
        cause: KeyError,
    },
    /// The name of a policy is invalid.
    #[error("{place}")]
    Policy {
        /// The full key, or the flag, variable or method that set it.
        place: String,
        /// The cause.
        #[source]
        cause: SourceError,
    },
}

impl Config {
    /// Reads a file. Paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&raw::Config::read_text(path)?, path)
    }

    /// Parses `text` as the content of the file `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let places = Places::default();
        let written = Written::new(text, path);
        written
            .parse_complete()?
            .convert(folder_of(path), &places)
            .map_err(|error| written.locate(error, &places))
    }
}

/// A file as it was read, to say where a value is that is invalid. Without a file, no value is anywhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    path: PathBuf,
    text: String,
}

impl Written {
    fn new(text: &str, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = raw::Config::read_text(path)?;
        let path = path.to_owned();
        Ok(Self { path, text })
    }

    pub(crate) fn parse(&self) -> Result<raw::Config, ConfigError> {
        raw::Config::parse(&self.text, &self.path)
    }

    /// As [`parse`](Self::parse), for a program that adds no handlers: each queue in the file has one.
    pub(crate) fn parse_complete(&self) -> Result<raw::Config, ConfigError> {
        raw::Config::parse_complete(&self.text, &self.path)
    }

    /// Its tables; none if there is no file.
    pub(crate) fn table(&self) -> toml::Table {
        toml::from_str(&self.text).unwrap_or_default()
    }

    /// Adds the file, line and column to the place of a value that is in the file.
    pub(crate) fn locate(&self, mut error: ConfigError, places: &Places) -> ConfigError {
        if let ConfigError::Value { place, .. }
        | ConfigError::Key { place, .. }
        | ConfigError::Policy { place, .. } = &mut error
            && !places.is_name(place)
            && let Some((line, column)) = place_of(&self.text, place)
        {
            let path = self.path.display();
            *place = format!("{path}: line {line}, column {column}: {place}");
        }
        error
    }
}

impl Config {
    /// Everything that decides, by the name of its queue in logs, records and metrics.
    pub fn deciders(&self) -> impl Iterator<Item = (&str, &DeciderConfig)> {
        let lambda = self.lambda.iter();
        let queues = self.queues.iter();
        lambda
            .map(|lambda| (lambda.name(), &lambda.decider))
            .chain(queues.map(|queue| (queue.name.as_str(), &queue.decider)))
    }
}

impl Config {
    /// A policy that has to be signed for a name has to be signed.
    fn check_signed_for(&self, places: &Places) -> Result<(), ConfigError> {
        let lambda = self
            .lambda
            .iter()
            .map(|it| ("lambda".to_owned(), &it.decider));
        let queues = self.queues.iter();
        let queues = queues.map(|it| (format!("queues.{}", it.name), &it.decider));
        let mut deciders = lambda.chain(queues);
        match deciders.find(|(_, decider)| decider.signed_for.is_some()) {
            Some((table, _)) if self.policies.keys.is_none() => Err(value(
                places.of(&format!("{table}.signed-for")),
                "expected together with `policies.require-signature`: without keys, no signature is checked",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// The directory that paths in a file are relative to.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn value(place: impl Into<String>, expected: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        place: place.into(),
        expected: expected.into(),
    }
}

impl raw::Config {
    /// Checks and converts the values. Relative paths are those of `folder`; errors name values by their `places`.
    pub(crate) fn convert(self, folder: &Path, places: &Places) -> Result<Config, ConfigError> {
        if self.queues.is_empty() && self.lambda.is_none() {
            return Err(value(
                "queues",
                "expected at least one queue, in a table such as [queues.orders], or a [lambda] table for the Lambda retry handler",
            ));
        }
        self.check_bounds("", places)?;
        let queues = self
            .queues
            .into_iter()
            .map(|(name, queue)| queue.convert(name, folder, places))
            .collect::<Result<_, _>>()?;
        let recorded = self.decisions.as_ref().and_then(|it| it.records);
        let decisions = self
            .decisions
            .map(|decisions| decisions.convert(folder, &|key| places.of(key)))
            .transpose()?;
        let config = Config {
            endpoint_url: self
                .endpoint_url
                .map(|text| url::endpoint(&places.of("endpoint-url"), &text))
                .transpose()?,
            decisions,
            recorded: recorded.unwrap_or_default(),
            metrics: self
                .metrics
                .map(|address| listen_address(&places.of("metrics"), &address, 9464))
                .transpose()?,
            traces: self
                .traces
                .map(|text| traces(&places.of("traces"), &text))
                .transpose()?,
            admin: admin::convert(
                self.admin.as_deref(),
                [
                    self.admin_token_file,
                    self.admin_bodies_token_file,
                    self.admin_view_token_file,
                ],
                self.admin_hosts,
                self.admin_proxy,
                folder,
                places,
            )?,
            fleet: admin::fleet(self.fleet, places)?,
            limits: self.limits.unwrap_or_default().convert()?,
            policies: self.policies.unwrap_or_default().convert(folder, places)?,
            queues,
            lambda: self
                .lambda
                .map(|lambda| lambda.convert(folder, places))
                .transpose()?,
        };
        config.check_signed_for(places)?;
        config.check_same_queues(places)?;
        Ok(config)
    }
}

fn traces(place: &str, text: &str) -> Result<Wish, ConfigError> {
    text.parse()
        .map_err(|error: backstop_traces::StartError| value(place, error.to_string()))
}

/// Parses an address to serve something at. Nothing listens on it yet. `port` is the one of the example in the error.
fn listen_address(place: &str, address: &str, port: u16) -> Result<SocketAddr, ConfigError> {
    address.parse().map_err(|_| {
        value(
            place,
            format!("`{address}` is not an address with a port: expected one such as 127.0.0.1:{port}, or 0.0.0.0:{port} for all interfaces"),
        )
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod mistake_tests;
