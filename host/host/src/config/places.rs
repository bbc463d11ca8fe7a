//! How error messages name a value: by its key in the file, or by the flag, the environment variable or the method that set it.

use std::collections::BTreeMap;

use super::keys;

/// The names of the values that did not come from the file. All others are named by their key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(BTreeMap<String, String>);

/// How a builder names the values that it sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By the method.
    #[default]
    Methods,
    /// By the flag of the command line.
    Flags,
}

impl Places {
    /// Names the value of a key, such as `queues.orders.max-age`.
    pub(crate) fn name(&mut self, key: impl Into<String>, name: impl Into<String>) {
        self.0.insert(key.into(), name.into());
    }

    /// Keeps the names of a queue's values when the queue gets another name.
    pub(crate) fn rename_queue(&mut self, from: &str, to: &str) {
        let prefix = format!("queues.{from}.");
        let (quoted, renamed) = (format!("`{from}`"), format!("`{to}`"));
        for (key, name) in std::mem::take(&mut self.0) {
            match key.strip_prefix(&prefix) {
                Some(rest) => self.name(
                    format!("queues.{to}.{rest}"),
                    name.replace(&quoted, &renamed),
                ),
                None => self.name(key, name),
            }
        }
    }

    /// Whether a value that did not come from the file has this name.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        self.0.values().any(|it| it == name)
    }

    /// Whether the value of a key did not come from the file.
    pub(crate) fn is_named(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The name of the value of a key.
    pub(crate) fn of(&self, key: &str) -> String {
        self.0.get(key).map_or_else(|| key.to_owned(), Clone::clone)
    }
}

impl Naming {
    /// The name of the value of a key.
    pub(crate) fn top(self, path: &str) -> String {
        let key = keys().find(|key| key.path() == path);
        let last = path.rsplit('.').next().unwrap_or(path);
        match self {
            Self::Methods => match key.map_or("", |key| key.method) {
                "" => last.replace('-', "_"),
                method => method.to_owned(),
            },
            Self::Flags => {
                let flag = key.and_then(|key| key.flag);
                format!("--{}", flag.map_or(last, |flag| flag.name))
            }
        }
    }

    /// The name of the value of a queue's key.
    pub(crate) fn queue(self, queue: &str, key: &str) -> String {
        let name = self.top(&format!("queues.NAME.{key}"));
        match (self, key) {
            (Self::Flags, "url") => "--queue-url".to_owned(),
            (Self::Methods, "url") | (Self::Flags, _) => name,
            (Self::Methods, _) => format!("{name} of queue `{queue}`"),
        }
    }
}
