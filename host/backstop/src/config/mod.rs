//! The configuration: what `backstop.toml` says, converted once into what the host works with.
//!
//! `raw` is the file's shape, this is its meaning. `host/docs/configuration.md` documents every key.

mod lambda;
mod options;
mod policies;
mod policy;
mod raw;
mod shadow;
mod url;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::decision::{Bounds, LONGEST_DELAY};
use crate::failure::Milliseconds;
use crate::function_name::is_function;
use crate::policy::{KeyError, Limits, PolicySpec, SourceError};
use crate::queue::{BATCH_BYTES, VisibilityTimeout};
use backstop_files::mistake::Mistake;
use backstop_files::regular_file::{self, WRITTEN};

use policy::policy;

pub use crate::record::Destination;
pub use backstop_core::settings::parse_pair;
pub use backstop_files::values::{parse_number, parse_span};
pub use lambda::{LambdaConfig, UNHINDERED_ATTEMPTS, Variables, unknown_variables};
pub use options::Options;
pub(crate) use options::longest_linger;
pub use policies::{Cache, Policies, refresh, required_keys};
pub use url::{parse_endpoint, queue_url};

/// Everything that `backstop run` needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// SQS and Lambda at this URL in place of the region's own.
    pub endpoint_url: Option<String>,
    /// Where decision records go.
    pub decisions: Option<Destination>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// What each policy component may use.
    pub limits: Limits,
    /// How policies are fetched, kept, trusted and taken back.
    pub policies: Policies,
    /// The queues to serve.
    pub queues: Vec<QueueConfig>,
    /// What the Lambda retry handler does; its defaults where the file has no `[lambda]`.
    pub lambda: Option<LambdaConfig>,
}

/// One queue to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// What it is called in logs and records.
    pub name: String,
    /// Its URL, or `local:NAME`.
    pub url: String,
    /// The URL of its dead-letter queue, if not the one of its redrive policy.
    pub dead_letter_queue: Option<String>,
    /// What does the work.
    pub handler: HandlerConfig,
    /// What decides.
    pub policy: PolicySpec,
    /// Scenarios of the operator's that every version has to pass.
    pub scenarios: Option<PathBuf>,
    /// What is asked beside it, and acts on nothing.
    pub shadow: Option<PolicySpec>,
    /// What holds whatever the policy says.
    pub bounds: Bounds,
    /// How the consumer goes about it.
    pub options: Options,
}

/// What does the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerConfig {
    /// A POST to this URL.
    Http {
        /// Where to.
        url: String,
        /// The proxy that it goes through; straight to the URL where none is given, whatever the environment says.
        proxy: Option<String>,
    },
    /// A program and its arguments.
    Exec(String, Vec<String>),
    /// A function's name or ARN.
    Lambda(String),
}

/// A configuration that can't be used; says where it is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No such file, or no permission.
    #[error("can't read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind; the text shows the place.
    #[error("{}: {text}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column, and the line itself.
        text: String,
    },
    /// A value that makes no sense where it stands.
    #[error("{place}: {expected}")]
    Value {
        /// The key, from the top.
        place: String,
        /// What would be right.
        expected: String,
    },
    /// A key that is none.
    #[error("{place}")]
    Key {
        /// The key of the configuration, from the top.
        place: String,
        /// What would be right.
        #[source]
        cause: KeyError,
    },
    /// A policy that is named wrongly.
    #[error("{place}")]
    Policy {
        /// The key, from the top.
        place: String,
        /// What would be right.
        #[source]
        cause: SourceError,
    },
}

impl Config {
    /// Reads a file. Paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        raw::Config::read(path)?.convert(folder_of(path))
    }

    /// The configuration that `text` says, as if it stood in the file `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        raw::Config::parse(text, path)?.convert(folder_of(path))
    }
}

/// What paths in a file are relative to.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn value(place: impl Into<String>, expected: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        place: place.into(),
        expected: expected.into(),
    }
}

impl raw::Config {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = regular_file::read_text_of_any(path, WRITTEN).map_err(|cause| {
            ConfigError::Unreadable {
                path: path.to_owned(),
                cause,
            }
        })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            text: Mistake::of(text, &error).to_string(),
        })
    }

    fn convert(self, folder: &Path) -> Result<Config, ConfigError> {
        if self.queues.is_empty() && self.lambda.is_none() {
            return Err(value(
                "queues",
                "expected at least one queue, in a table such as [queues.orders], or a [lambda] table for the Lambda retry handler",
            ));
        }
        let queues = self
            .queues
            .into_iter()
            .map(|(name, queue)| queue.convert(name, folder))
            .collect::<Result<_, _>>()?;
        let decisions = self
            .decisions
            .map(|decisions| match decisions.record.as_str() {
                "stdout" | "-" => Destination::Stdout,
                path => Destination::File(folder.join(path)),
            });
        Ok(Config {
            endpoint_url: self
                .endpoint_url
                .map(|text| url::endpoint("endpoint-url", &text))
                .transpose()?,
            decisions,
            metrics: self
                .metrics
                .map(|address| metrics_address("metrics", &address))
                .transpose()?,
            limits: self.limits.unwrap_or_default().convert()?,
            policies: self.policies.unwrap_or_default().convert(folder)?,
            queues,
            lambda: self
                .lambda
                .map(|lambda| lambda.convert(folder))
                .transpose()?,
        })
    }
}

impl raw::Limits {
    fn convert(self) -> Result<Limits, ConfigError> {
        let mut limits = Limits::default();
        limits.fuel = self.fuel.unwrap_or(limits.fuel);
        limits.time = self.time.map_or(limits.time, |span| span.0);
        limits.memory = self.memory.map_or(limits.memory, |bytes| bytes.0);
        limits.table_elements = self.table_elements.unwrap_or(limits.table_elements);
        limits.instances = self.instances.unwrap_or(limits.instances);
        limits.log = self.log.map_or(limits.log, |bytes| bytes.0);
        limits.strings = self.strings.map_or(limits.strings, |bytes| bytes.0);
        limits.payload = self.payload.map_or(limits.payload, |bytes| bytes.0);
        limits.component = self.component.map_or(limits.component, |bytes| bytes.0);
        if limits.memory > 4 << 30 {
            return Err(value("limits.memory", "expected at most 4GiB"));
        }
        if let Some(compile) = self.compile {
            let within = &mut limits.compile;
            within.time = compile.time.map_or(within.time, |span| span.0);
            within.cpu = compile.cpu.map_or(within.cpu, |span| span.0);
            within.memory = compile.memory.map_or(within.memory, |bytes| bytes.0);
            if within.time.is_zero() || within.cpu.is_zero() || within.memory == 0 {
                return Err(value(
                    "limits.compile",
                    "expected more than nothing, such as { time = \"5m\", cpu = \"2m\", memory = \"2GiB\" }",
                ));
            }
        }
        Ok(limits)
    }
}

impl raw::Queue {
    fn convert(self, name: String, folder: &Path) -> Result<QueueConfig, ConfigError> {
        if name.trim().is_empty() {
            return Err(value(
                "queues",
                format!("a queue has no name (\"{name}\"): expected one, as in [queues.orders]"),
            ));
        }
        let at = |key: &str| format!("queues.{name}.{key}");
        let url = queue_url(&at("url"), self.url)?;
        let dead_letter_queue = self
            .dead_letter_queue
            .map(|url| queue_url(&at("dead-letter-queue"), url))
            .transpose()?;
        let live = shadow::settings_of(self.policy.as_ref(), self.settings.as_ref());
        let shadow = shadow::shadow(self.shadow, self.shadow_settings, live, folder, &at)?;
        let policy = policy(self.policy, self.settings, folder, &at)?;
        let bounds = Bounds {
            max_attempts: self
                .max_attempts
                .map(|most| attempts(&at("max-attempts"), most))
                .transpose()?,
            max_age: self
                .max_age
                .map(|span| max_age(&at("max-age"), span.0))
                .transpose()?,
            retention: None,
            allow_discard: self.allow_discard.unwrap_or(true),
        };
        let defaults = Options::default();
        let max_in_flight = max_in_flight(
            &at("max-in-flight"),
            self.max_in_flight.unwrap_or(defaults.max_in_flight),
        )?;
        let visibility_timeout = self
            .visibility_timeout
            .map(|span| visibility(&at("visibility-timeout"), span.0))
            .transpose()?;
        let options = Options {
            max_in_flight,
            max_bytes_in_flight: self
                .max_bytes_in_flight
                .map_or(defaults.max_bytes_in_flight, |bytes| bytes.0),
            visibility_timeout,
            attempt_timeout: self
                .attempt_timeout
                .map_or(defaults.attempt_timeout, |span| span.0),
            linger: self.linger.map_or(defaults.linger, |span| span.0),
            grace: self.grace.map_or(defaults.grace, |span| span.0),
        };
        if options.max_bytes_in_flight < BATCH_BYTES {
            return Err(value(
                at("max-bytes-in-flight"),
                "expected at least 1MiB, the size of the largest message",
            ));
        }
        let longest = VisibilityTimeout::MAX.as_duration();
        if !(Duration::from_secs(1)..=longest).contains(&options.attempt_timeout) {
            return Err(value(
                at("attempt-timeout"),
                "expected 1s to 12h, for which SQS keeps a message invisible",
            ));
        }
        if options.linger > Duration::from_secs(5) {
            return Err(value(
                at("linger"),
                "expected at most 5s: messages stay in hand for that long",
            ));
        }
        if let Some(visibility) = options.visibility_timeout
            && options.linger > longest_linger(visibility)
        {
            return Err(value(
                at("linger"),
                "expected at most a third of visibility-timeout: an outcome that waits for longer may come when the message is visible again",
            ));
        }
        Ok(QueueConfig {
            handler: self.handler.convert(&at("handler"), folder)?,
            url,
            dead_letter_queue,
            policy,
            scenarios: self.scenarios.map(|path| folder.join(path)),
            shadow,
            bounds,
            options,
            name,
        })
    }
}

impl raw::Handler {
    fn convert(self, place: &str, folder: &Path) -> Result<HandlerConfig, ConfigError> {
        if self.proxy.is_some() && self.http.is_none() {
            return Err(value(
                format!("{place}.proxy"),
                "expected beside `http` alone: no other handler has a proxy",
            ));
        }
        let proxy = self.proxy;
        match (self.http, self.exec, self.lambda) {
            (Some(url), None, None) => Ok(HandlerConfig::Http { url, proxy }),
            (None, Some(command), None) => {
                let mut words = command.0.into_iter();
                let program = words.next().filter(|program| !program.is_empty());
                let program = program.ok_or_else(|| {
                    value(
                        format!("{place}.exec"),
                        "expected a program, such as [\"./work.sh\", \"--fast\"]",
                    )
                })?;
                // A bare name is looked up on the PATH; a path is one from the file's folder.
                let program = if program.contains('/') {
                    folder.join(program).to_string_lossy().into_owned()
                } else {
                    program
                };
                Ok(HandlerConfig::Exec(program, words.collect()))
            }
            (None, None, Some(name)) => {
                function(&format!("{place}.lambda"), name).map(HandlerConfig::Lambda)
            }
            _ => Err(value(
                place,
                "expected exactly one of `http`, `exec` and `lambda`, such as { http = \"http://127.0.0.1:8080/\" }",
            )),
        }
    }
}

/// Where metrics are served. Nothing is listened on here.
pub fn metrics_address(place: &str, address: &str) -> Result<SocketAddr, ConfigError> {
    address.parse().map_err(|_| {
        value(
            place,
            format!("`{address}` is not an address with a port: expected one such as 127.0.0.1:9464, or 0.0.0.0:9464 for all interfaces"),
        )
    })
}

/// What names a function: a name or an ARN, with a version or an alias or without. Nothing is asked of Lambda here.
pub fn function(place: &str, name: String) -> Result<String, ConfigError> {
    if is_function(&name) {
        return Ok(name);
    }
    Err(value(
        place,
        format!(
            "`{name}` is not a function: expected a name or an ARN, with a version or an alias or without, such as orders or orders:live"
        ),
    ))
}

/// At most as many attempts as this, from 1.
pub fn attempts(place: &str, most: u32) -> Result<NonZeroU32, ConfigError> {
    NonZeroU32::new(most).ok_or_else(|| value(place, "expected a whole number from 1"))
}

/// So many messages in hand: SQS has 120 000 in flight at most.
pub fn max_in_flight(place: &str, most: usize) -> Result<usize, ConfigError> {
    match most {
        1..=100_000 => Ok(most),
        _ => Err(value(
            place,
            "expected a whole number from 1 to 100000: SQS has 120000 messages in flight at most",
        )),
    }
}

/// At most this old, up to SQS's longest retention.
pub fn max_age(place: &str, span: Duration) -> Result<Milliseconds, ConfigError> {
    let age = Milliseconds::from_duration(span);
    if age == Milliseconds(0) || age > LONGEST_DELAY {
        return Err(value(
            place,
            "expected more than 0s and at most 14d, for which SQS keeps a message",
        ));
    }
    Ok(age)
}

fn visibility(place: &str, span: Duration) -> Result<VisibilityTimeout, ConfigError> {
    if span.is_zero() || span > VisibilityTimeout::MAX.as_duration() {
        return Err(value(place, "expected 1s to 12h"));
    }
    Ok(VisibilityTimeout::rounded_up(span))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod mistake_tests;
