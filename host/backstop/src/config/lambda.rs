//! What the Lambda retry handler is told: by the `[lambda]` table of a `backstop.toml` in its package, and by environment variables, which come before it.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    Config, ConfigError, attempts, folder_of, function, max_age, parse_pair, parse_span, policy,
    queue_url, raw, shadow, value,
};
use crate::decision::{Bounds, LONGEST_DELAY};
use crate::policy::{Limits, Location, PolicySpec, Source};
use raw::{Bytes, SettingsTable, Span};

/// The environment: what a variable is set to.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Every variable that is read here, but for those of Lambda itself.
const VARIABLES: [&str; 17] = [
    "BACKSTOP_RETRY_QUEUE_URL",
    "BACKSTOP_DEAD_LETTER_QUEUE_URL",
    "BACKSTOP_POLICY",
    "BACKSTOP_SETTINGS",
    "BACKSTOP_SHADOW",
    "BACKSTOP_SHADOW_SETTINGS",
    "BACKSTOP_MAX_ATTEMPTS",
    "BACKSTOP_MAX_AGE",
    "BACKSTOP_ALLOW_DISCARD",
    "BACKSTOP_MARGIN",
    "BACKSTOP_FUNCTIONS",
    "BACKSTOP_CACHE",
    "BACKSTOP_REFRESH",
    "BACKSTOP_REQUIRE_SIGNATURE",
    "BACKSTOP_PLAIN_HTTP",
    "BACKSTOP_DECISIONS",
    "BACKSTOP_CONFIG",
];

/// Those of these variables that begin like ours and are none of them: a setting that is not heeded.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let is_unknown =
        |name: &String| name.starts_with("BACKSTOP") && !VARIABLES.contains(&name.as_str());
    names.into_iter().filter(is_unknown).collect()
}

/// Where layers are unpacked.
const LAYERS: &str = "/opt";

/// Where good versions of policies and compiled code are kept by default: for as long as Lambda keeps this environment.
const CACHE: &str = "/tmp/backstop";

/// How long a decision may take by default. A small function has a fraction of a processor: fuel bounds a policy before this does, and alike on every machine.
const TIME: Duration = Duration::from_secs(10);

/// What is kept of an invocation's time by default.
const MARGIN: Duration = Duration::from_secs(5);

/// How many invocations of one chain Lambda's recursion detection lets through for sure; it ends a chain at about 16.
pub const UNHINDERED_ATTEMPTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(11);

/// What the Lambda retry handler does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LambdaConfig {
    /// The retry queue's URL; found by the mapping's ARN where none is given.
    pub retry_queue: Option<String>,
    /// The dead-letter queue's URL; that of the retry queue's redrive policy where none is given.
    pub dead_letter_queue: Option<String>,
    /// What decides.
    pub policy: PolicySpec,
    /// Scenarios of the operator's that every version has to pass.
    pub scenarios: Option<PathBuf>,
    /// What is asked beside it, and acts on nothing.
    pub shadow: Option<PolicySpec>,
    /// What holds whatever the policy says. The most attempts and the highest age are always set.
    pub bounds: Bounds,
    /// What is kept of an invocation's time.
    pub margin: Duration,
    /// The handler's own function, for `backstop doctor`.
    pub handler: Option<String>,
    /// The functions whose failures come here, and no other is invoked; any function where there are none. `backstop doctor` looks at them, and so does the check at the start.
    pub functions: Vec<String>,
}

impl raw::Lambda {
    pub(super) fn convert(self, folder: &Path) -> Result<LambdaConfig, ConfigError> {
        let at = |key: &str| format!("lambda.{key}");
        let standard = |key: &str, url: String| {
            let url = queue_url(&at(key), url)?;
            if url.ends_with(".fifo") {
                return Err(value(
                    at(key),
                    "expected a standard queue: Lambda delivers no on-failure records to a FIFO queue, and a message that waits would hold up its group",
                ));
            }
            Ok(url)
        };
        let most = self
            .max_attempts
            .map(|most| attempts(&at("max-attempts"), most))
            .transpose()?;
        let oldest = self
            .max_age
            .map(|span| max_age(&at("max-age"), span.0))
            .transpose()?;
        let margin = self.margin.map_or(MARGIN, |span| span.0);
        if !(Duration::from_secs(1)..=Duration::from_secs(60)).contains(&margin) {
            return Err(value(at("margin"), "expected 1s to 60s"));
        }
        if self.functions.as_ref().is_some_and(Vec::is_empty) {
            return Err(value(
                at("functions"),
                "names no function: expected at least one that may be invoked, or no list at all, and then any may",
            ));
        }
        let functions = self.functions.unwrap_or_default();
        for name in &functions {
            function(&at("functions"), name.clone())?;
        }
        let handler = self.handler.map(|name| function(&at("handler"), name));
        let handler = handler.transpose()?;
        let live = shadow::settings_of(self.policy.as_ref(), self.settings.as_ref());
        Ok(LambdaConfig {
            shadow: shadow::shadow(self.shadow, self.shadow_settings, live, folder, &at)?,
            retry_queue: self
                .retry_queue
                .map(|url| standard("retry-queue", url))
                .transpose()?,
            dead_letter_queue: self
                .dead_letter_queue
                .map(|url| standard("dead-letter-queue", url))
                .transpose()?,
            policy: policy(self.policy, self.settings, folder, &at)?,
            scenarios: self.scenarios.map(|path| folder.join(path)),
            bounds: Bounds {
                max_attempts: Some(most.unwrap_or(UNHINDERED_ATTEMPTS)),
                max_age: Some(oldest.unwrap_or(LONGEST_DELAY)),
                retention: None,
                allow_discard: self.allow_discard.unwrap_or(true),
            },
            margin,
            handler,
            functions,
        })
    }

    /// Takes what the environment says in place of what the file says.
    fn overlaid(mut self, variable: Variables<'_>) -> Result<Self, ConfigError> {
        let text = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        self.retry_queue = text("BACKSTOP_RETRY_QUEUE_URL").or(self.retry_queue);
        self.dead_letter_queue = text("BACKSTOP_DEAD_LETTER_QUEUE_URL").or(self.dead_letter_queue);
        if let Some(name) = text("BACKSTOP_POLICY") {
            // The file's settings are those of the file's policy.
            self.settings = None;
            self.policy = Some(raw::Policy::Whole(name));
        }
        if let Some(name) = text("BACKSTOP_SHADOW") {
            self.shadow_settings = None;
            self.shadow = Some(raw::Policy::Whole(name));
        }
        for (name, settings) in [
            ("BACKSTOP_SETTINGS", &mut self.settings),
            ("BACKSTOP_SHADOW_SETTINGS", &mut self.shadow_settings),
        ] {
            if let Some(pairs) = text(name) {
                let pairs = pairs.split(',').map(parse_pair).collect::<Result<_, _>>();
                *settings = Some(SettingsTable(
                    pairs.map_err(|error| value(name, error.to_string()))?,
                ));
            }
        }
        if let Some(most) = text("BACKSTOP_MAX_ATTEMPTS") {
            let most: NonZeroU32 = most.trim().parse().map_err(|_| {
                value(
                    "BACKSTOP_MAX_ATTEMPTS",
                    format!("`{most}` is not a whole number from 1"),
                )
            })?;
            self.max_attempts = Some(most.get());
        }
        if let Some(allow) = text("BACKSTOP_ALLOW_DISCARD") {
            let allow = allow.trim().parse().map_err(|_| {
                value(
                    "BACKSTOP_ALLOW_DISCARD",
                    format!("`{allow}` is neither true nor false"),
                )
            })?;
            self.allow_discard = Some(allow);
        }
        for (name, span) in [
            ("BACKSTOP_MAX_AGE", &mut self.max_age),
            ("BACKSTOP_MARGIN", &mut self.margin),
        ] {
            if let Some(text) = text(name) {
                let parsed =
                    parse_span(text.trim()).map_err(|error| value(name, error.to_string()))?;
                *span = Some(Span(parsed));
            }
        }
        if let Some(functions) = text("BACKSTOP_FUNCTIONS") {
            let names = functions.split(',').map(|name| name.trim().to_owned());
            self.functions = Some(names.filter(|name| !name.is_empty()).collect());
        }
        self.handler = text("AWS_LAMBDA_FUNCTION_NAME").or(self.handler);
        Ok(self)
    }
}

impl raw::Policies {
    /// Takes what the environment says in place of what the file says.
    fn overlaid(&mut self, text: Variables<'_>) -> Result<(), ConfigError> {
        if let Some(cache) = text("BACKSTOP_CACHE") {
            self.cache = Some(cache);
        }
        if let Some(refresh) = text("BACKSTOP_REFRESH") {
            let span = parse_span(refresh.trim())
                .map_err(|error| value("BACKSTOP_REFRESH", error.to_string()))?;
            self.refresh = Some(Span(span));
        }
        let list = |text: String| text.split(',').map(|it| it.trim().to_owned()).collect();
        if let Some(keys) = text("BACKSTOP_REQUIRE_SIGNATURE") {
            self.require_signature = Some(list(keys));
        }
        if let Some(registries) = text("BACKSTOP_PLAIN_HTTP") {
            self.plain_http = list(registries);
        }
        Ok(())
    }
}

/// What a function of so many MiB has left to compile in: three quarters, since it is ended as a whole when all of it is used.
fn memory_to_compile(mebibytes: String) -> Option<usize> {
    let mebibytes: usize = mebibytes.trim().parse().ok()?;
    let most = Limits::default().compile.memory;
    Some(mebibytes.checked_mul(3 << 18)?.clamp(1, most))
}

/// The file, or one that says nothing.
fn read_or_nothing(path: Option<&Path>) -> Result<raw::Config, ConfigError> {
    path.map_or_else(|| Ok(raw::Config::default()), raw::Config::read)
}

impl Config {
    /// The configuration in a file, if one is given, with what `variable` says of a Lambda retry handler in place of what the file says.
    pub fn with_lambda(path: Option<&Path>, variable: Variables<'_>) -> Result<Self, ConfigError> {
        let mut raw = read_or_nothing(path)?;
        raw.lambda = Some(raw.lambda.unwrap_or_default().overlaid(variable)?);
        raw.convert(path.map_or(Path::new(""), folder_of))
    }

    /// The configuration of a Lambda retry handler: the file that `BACKSTOP_CONFIG` names, or `backstop.toml` in the package or in a layer, if there is one; and the environment. A policy's path is looked for beside the file, in the package, and in the layers.
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
        let mut raw = read_or_nothing(path.as_deref())?;
        raw.lambda = Some(raw.lambda.unwrap_or_default().overlaid(variable)?);
        let limits = raw.limits.get_or_insert_default();
        limits.time.get_or_insert(Span(TIME));
        if let Some(bytes) = set("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(memory_to_compile) {
            let compile = limits.compile.get_or_insert_default();
            compile.memory.get_or_insert(Bytes(bytes));
        }
        if let Some(record) = set("BACKSTOP_DECISIONS") {
            raw.decisions = Some(raw::Decisions { record });
        }
        let policies = raw.policies.get_or_insert_default();
        // The one folder of a function that can be written to.
        policies.cache.get_or_insert_with(|| CACHE.to_owned());
        policies.overlaid(&set)?;
        let mut config = raw.convert(folder)?;
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
            lambda.policy.for_each_source(find);
            if let Some(shadow) = &mut lambda.shadow {
                shadow.for_each_source(find);
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
#[path = "lambda_tests.rs"]
mod tests;
