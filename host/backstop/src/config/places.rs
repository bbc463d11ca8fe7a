//! How error messages name a value: by its key in the file, or by the flag, the environment variable or the method that set it.

use std::collections::BTreeMap;

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

    /// The name of the value of a key.
    pub(crate) fn of(&self, key: &str) -> String {
        self.0.get(key).map_or_else(|| key.to_owned(), Clone::clone)
    }
}

impl Naming {
    /// The name of a value that is not of a queue.
    pub(crate) fn top(self, key: &str) -> String {
        let last = key.rsplit('.').next().unwrap_or(key);
        match self {
            Self::Methods => last.replace('-', "_"),
            Self::Flags => format!("--{last}"),
        }
    }

    /// The name of a value of a queue.
    pub(crate) fn queue(self, queue: &str, key: &str) -> String {
        match (self, key) {
            (Self::Flags, "url") => "--queue-url".to_owned(),
            (Self::Flags, "settings") => "--set".to_owned(),
            (Self::Flags, "shadow-settings") => "--shadow-set".to_owned(),
            (Self::Flags, key) if key.starts_with("idempotency.") => {
                format!("--{}", key.replace('.', "-"))
            }
            (Self::Flags, "handler.proxy") => "--http-proxy".to_owned(),
            (Self::Flags, "handler.content-type") => "--http-content-type".to_owned(),
            (Self::Methods, "url") => "queue".to_owned(),
            (Self::Methods, "settings") => format!("set of queue `{queue}`"),
            (Self::Methods, "shadow-settings") => format!("set_shadow of queue `{queue}`"),
            (Self::Methods, "idempotency.table") => format!("idempotency of queue `{queue}`"),
            (Self::Methods, "handler.proxy") => format!("http_proxy of queue `{queue}`"),
            (Self::Methods, "handler.content-type") => {
                format!("http_content_type of queue `{queue}`")
            }
            (
                Self::Methods,
                "idempotency.key"
                | "idempotency.validate"
                | "idempotency.prefix"
                | "idempotency.format"
                | "idempotency.lease"
                | "idempotency.expires-after"
                | "idempotency.attributes",
            ) => format!("{} of queue `{queue}`", key.replace(['.', '-'], "_")),
            (Self::Flags, _) => self.top(key),
            (Self::Methods, _) => format!("{} of queue `{queue}`", self.top(key)),
        }
    }
}
