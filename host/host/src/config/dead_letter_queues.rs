//! Where the dead letters of a queue go: to one queue, or to one for each class.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConfigError, raw, value};

/// The key of the queue for every class that has none of its own.
const DEFAULT: &str = "default";

/// The dead-letter queues of a queue, by their URLs.
///
/// A dead letter whose failure has a class with a queue of its own goes there; any other goes to the default queue.
///
/// ```
/// use backstop_host::config::DeadLetterQueues;
///
/// let queues = DeadLetterQueues::from(Some("local:dead")).with("permanent", "local:invalid");
/// assert_eq!(queues.of(Some("permanent")), Some("local:invalid"));
/// assert_eq!(queues.of(Some("transient")), Some("local:dead"));
/// assert_eq!(queues.of(None), Some("local:dead"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterQueues {
    /// The queue for every class that has none of its own. If there is none, the queue of the redrive policy.
    pub default: Option<String>,
    /// The queues of classes. A key is a class of the contract or one that a policy defines.
    pub classes: BTreeMap<String, String>,
}

impl DeadLetterQueues {
    /// Adds or replaces the queue of a class.
    #[must_use]
    pub fn with(mut self, class: impl Into<String>, url: impl Into<String>) -> Self {
        self.classes.insert(class.into(), url.into());
        self
    }

    /// The URL of the queue for dead letters of this class, if one is configured.
    pub fn of(&self, class: Option<&str>) -> Option<&str> {
        let own = class.and_then(|class| self.classes.get(class));
        own.or(self.default.as_ref()).map(String::as_str)
    }

    /// All URLs, each once.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        let own: BTreeSet<_> = self.classes.values().collect();
        let others = own
            .into_iter()
            .filter(|url| self.default.as_ref() != Some(url));
        self.default.iter().chain(others).map(String::as_str)
    }
}

impl<S: AsRef<str> + ?Sized> From<Option<&S>> for DeadLetterQueues {
    fn from(default: Option<&S>) -> Self {
        Self {
            default: default.map(|url| url.as_ref().to_owned()),
            classes: BTreeMap::new(),
        }
    }
}

/// One queue of a flag or an environment variable: its class, if it is for one, and its URL. `permanent=local:invalid` is the queue of a class, `local:dead` the default one.
fn parse_one(text: &str) -> Result<(Option<String>, String), String> {
    let text = text.trim();
    // A URL has a colon before any `=`.
    let Some((class, url)) = text
        .split_once('=')
        .filter(|(class, _)| !class.contains([':', '/']))
    else {
        return Ok((None, text.to_owned()));
    };
    let class = class.trim();
    if class.is_empty() {
        return Err(format!(
            "`{text}` names no class: expected a URL, or a class and a URL such as permanent=https://sqs.eu-west-1.amazonaws.com/123456789012/invalid"
        ));
    }
    let class = (class != DEFAULT).then(|| class.to_owned());
    Ok((class, url.trim().to_owned()))
}

impl raw::DeadLetterQueues {
    /// Reads the value of an environment variable: a URL, or `CLASS=URL` pairs separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::of_each(text.split(',').filter(|part| !part.trim().is_empty()))
    }

    /// Reads the values of a flag: URLs or `CLASS=URL` pairs.
    pub(super) fn of_each(
        texts: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, String> {
        let mut queues = Self::default();
        for text in texts {
            let (class, url) = parse_one(text.as_ref())?;
            if queues.set(class.as_deref(), url) {
                return Err(format!(
                    "names two queues for the class `{}`: expected one",
                    class.as_deref().unwrap_or(DEFAULT)
                ));
            }
        }
        Ok(queues)
    }

    /// Sets the queue of a class, or the default one. Returns whether it replaced another.
    pub(crate) fn set(&mut self, class: Option<&str>, url: String) -> bool {
        let class = class.unwrap_or(DEFAULT).to_owned();
        self.0.insert(class, url).is_some()
    }

    /// Checks the URLs with `check`, which gets the key of each.
    pub(super) fn convert(
        self,
        at: &dyn Fn(&str) -> String,
        check: impl Fn(&str, String) -> Result<String, ConfigError>,
    ) -> Result<DeadLetterQueues, ConfigError> {
        const KEY: &str = "dead-letter-queue";
        if self.0.is_empty() {
            return Err(value(
                at(KEY),
                "names no queue: expected a URL, or a table of classes such as { permanent = \"https://…\", default = \"https://…\" }",
            ));
        }
        let is_single = self.0.len() == 1 && self.0.contains_key(DEFAULT);
        let mut queues = DeadLetterQueues::default();
        for (class, url) in self.0 {
            if class.trim().is_empty() {
                return Err(value(
                    at(KEY),
                    "a class has no name: expected one such as permanent",
                ));
            }
            let place = if is_single {
                at(KEY)
            } else {
                let place = at(KEY);
                if place.starts_with("--") || place.starts_with("BACKSTOP") {
                    format!("{place} {class}")
                } else {
                    format!("{place}.{class}")
                }
            };
            let url = check(&place, url)?;
            if class == DEFAULT {
                queues.default = Some(url);
            } else {
                queues.classes.insert(class, url);
            }
        }
        Ok(queues)
    }
}
