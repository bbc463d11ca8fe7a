//! The configuration of the Lambda retry handler: the `[lambda]` table of a `backstop.toml` in its package, and environment variables, which override it.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::policies::signed_for;
use super::policy::policy;
use super::queue::function;
use super::url::queue_url;
use super::{
    Config, ConfigError, DeadLetterQueues, DeciderConfig, Places, Written, folder_of, keys, raw,
    shadow, value,
};
use crate::decision::{Bounds, LONGEST_DELAY};
use crate::failure::Milliseconds;
use crate::hold::HoldMode;
use crate::policy::{Limits, Location, Source};
use crate::queue::short_name;
use raw::{Bytes, Span, Table};

/// Looks up an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Every variable that is read here, apart from those that Lambda sets.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let of_keys = keys().map(|key| key.variable);
    let own = of_keys.filter(|name| name.starts_with("BACKSTOP"));
    own.chain(["BACKSTOP_CONFIG"])
}

/// The variables that start with `BACKSTOP` but have no meaning, such as misspelt ones.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let is_unknown =
        |name: &String| name.starts_with("BACKSTOP") && variables().all(|known| known != name);
    names.into_iter().filter(is_unknown).collect()
}

/// The directory of the layers.
const LAYERS: &str = "/opt";

/// The default store of good versions and compiled code. It lasts as long as the execution environment.
const CACHE: &str = "/tmp/backstop";

/// The default time limit of a decision. A small function has a fraction of a processor: fuel is exhausted before this, at the same point on every machine.
const TIME: Duration = Duration::from_secs(10);

/// The default margin.
const MARGIN: Duration = Duration::from_secs(5);

/// How many invocations of one chain Lambda's recursion detection lets through for sure; it ends a chain at about 16.
pub const UNHINDERED_ATTEMPTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(11);

/// The configuration of the Lambda retry handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LambdaConfig {
    /// The retry queue's URL; found by the ARN in the event source mapping by default.
    pub retry_queue: Option<String>,
    /// The dead-letter queues. Without a default one, the queue of the retry queue's redrive policy is used.
    pub dead_letter_queues: DeadLetterQueues,
    /// Decides about failures. The bounds on attempts and age are always set.
    pub decider: DeciderConfig,
    /// How messages are held until their event is due.
    pub hold: HoldMode,
    /// The file with the keys by which the handler knows the envelopes of messages that were sent again. Without one, each execution environment knows its own only.
    pub envelope_key_file: Option<PathBuf>,
    /// How much of an invocation's time is reserved for its end.
    pub margin: Duration,
    /// Whether the metrics of each batch are written to the log.
    pub metrics: bool,
    /// The handler's own function, for `backstop doctor`.
    pub handler: Option<String>,
    /// The functions that may be invoked; any function if the list is empty. `backstop doctor` checks them, and so does the start.
    pub functions: Vec<String>,
}

impl LambdaConfig {
    /// The name of the retry queue in logs, records and metrics.
    pub fn name(&self) -> &str {
        self.retry_queue.as_deref().map_or("retries", short_name)
    }
}

impl raw::Lambda {
    pub(super) fn convert(
        self,
        folder: &Path,
        places: &Places,
    ) -> Result<LambdaConfig, ConfigError> {
        let at = |key: &str| places.of(&format!("lambda.{key}"));
        let standard = |place: &str, url: String| {
            let url = queue_url(place, url)?;
            if url.ends_with(".fifo") {
                return Err(value(
                    place,
                    "expected a standard queue: Lambda delivers no on-failure records to a FIFO queue, and a delayed message would hold up its group",
                ));
            }
            Ok(url)
        };
        let most = self.max_attempts.and_then(NonZeroU32::new);
        let oldest = self.max_age.map(|span| Milliseconds::from_duration(span.0));
        if self.functions.as_ref().is_some_and(Vec::is_empty) {
            return Err(value(
                at("functions"),
                "names no function: expected at least one; without a list, any function may be invoked",
            ));
        }
        let functions = self.functions.unwrap_or_default();
        for name in &functions {
            function(&at("functions"), name.clone())?;
        }
        let handler = self.handler.map(|name| function(&at("handler"), name));
        let handler = handler.transpose()?;
        let live = shadow::settings_of(self.policy.as_ref(), self.settings.as_ref());
        let decider = DeciderConfig {
            shadow: shadow::shadow(self.shadow, self.shadow_settings, live, folder, &at)?,
            policy: policy(self.policy, self.settings, folder, &at)?,
            scenarios: self.scenarios.map(|path| folder.join(path)),
            signed_for: signed_for(&at("signed-for"), self.signed_for)?,
            bounds: Bounds {
                max_attempts: Some(most.unwrap_or(UNHINDERED_ATTEMPTS)),
                max_age: Some(oldest.unwrap_or(LONGEST_DELAY)),
                retention: None,
                allow_discard: self.allow_discard.unwrap_or(true),
            },
        };
        Ok(LambdaConfig {
            retry_queue: self
                .retry_queue
                .map(|url| standard(&at("retry-queue"), url))
                .transpose()?,
            dead_letter_queues: self
                .dead_letter_queue
                .map(|queues| queues.convert(&at, standard))
                .transpose()?
                .unwrap_or_default(),
            decider,
            hold: self.hold.unwrap_or_default(),
            envelope_key_file: self.envelope_key_file.map(|path| folder.join(path)),
            margin: self.margin.map_or(MARGIN, |span| span.0),
            metrics: self.metrics.unwrap_or(false),
            handler,
            functions,
        })
    }
}

/// The memory limit of the compiler in a function with this much memory: three quarters, because Lambda ends a function that uses all of it.
fn memory_to_compile(mebibytes: String) -> Option<usize> {
    let mebibytes: usize = mebibytes.trim().parse().ok()?;
    let most = Limits::default().compile.memory;
    Some(mebibytes.checked_mul(3 << 18)?.clamp(1, most))
}

impl raw::Config {
    /// The configuration of a Lambda retry handler: this one, with the values of its environment. Paths are relative to `folder`.
    pub(super) fn overridden_by(
        mut self,
        written: &Written,
        folder: &Path,
        variable: Variables<'_>,
    ) -> Result<Config, ConfigError> {
        let set = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let mut places = Places::default();
        let lambda = self.lambda.get_or_insert_default();
        // The file's settings are those of the file's policy.
        if set("BACKSTOP_POLICY").is_some() {
            lambda.settings = None;
        }
        if set("BACKSTOP_SHADOW").is_some() {
            lambda.shadow_settings = None;
        }
        lambda.override_by(variable, &mut places)?;
        let limits = self.limits.get_or_insert_default();
        limits.time.get_or_insert(Span(TIME));
        if let Some(bytes) = set("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(memory_to_compile) {
            let compile = limits.compile.get_or_insert_default();
            compile.memory.get_or_insert(Bytes(bytes));
        }
        if set("BACKSTOP_DECISIONS").is_some() {
            let decisions = self.decisions.get_or_insert_default();
            decisions.override_by(variable, &mut places)?;
        }
        let policies = self.policies.get_or_insert_default();
        // The only directory that a function may write to.
        policies.cache.get_or_insert_with(|| CACHE.to_owned());
        policies.override_by(variable, &mut places)?;
        self.convert(folder, &places)
            .map_err(|error| written.locate(error, &places))
    }
}

/// Reads the file, if there is one.
pub(super) fn read_or_default(path: Option<&Path>) -> Result<(raw::Config, Written), ConfigError> {
    let Some(path) = path else {
        return Ok(Default::default());
    };
    let written = Written::read(path)?;
    Ok((written.parse()?, written))
}

impl Config {
    /// The configuration of a Lambda retry handler: the file that `BACKSTOP_CONFIG` names, or `backstop.toml` in the package or in a layer, if there is one; then the environment. The path of a policy is searched for next to the file, in the package, and in the layers.
    pub fn of_lambda(variable: Variables<'_>) -> Result<Self, ConfigError> {
        let set = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let package = PathBuf::from(variable("LAMBDA_TASK_ROOT").unwrap_or_default());
        let path = match set("BACKSTOP_CONFIG") {
            Some(path) => Some(package.join(path)),
            None => [package.as_path(), Path::new(LAYERS)]
                .map(|folder| folder.join("backstop.toml"))
                .into_iter()
                .find(|path| path.exists()),
        };
        let folder = path.as_deref().map_or(package.as_path(), folder_of);
        let (raw, written) = read_or_default(path.as_deref())?;
        let mut config = raw.overridden_by(&written, folder, variable)?;
        if let Some(lambda) = &mut config.lambda {
            let folders = [folder, package.as_path(), Path::new(LAYERS)];
            let find = |source: &mut Source| {
                if let Location::Path(path) = &mut source.location
                    && let Ok(relative) = path.strip_prefix(folder).map(Path::to_owned)
                    && let Some(found) = folders
                        .iter()
                        .map(|folder| folder.join(&relative))
                        .find(|path| path.exists())
                {
                    *path = found;
                }
            };
            lambda.decider.policy.for_each_source(find);
            if let Some(shadow) = &mut lambda.decider.shadow {
                shadow.for_each_source(find);
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
#[path = "lambda_tests.rs"]
mod tests;
