//! The entry point of the library: a host for queues, set up by methods or by a file.

mod breaker;
mod idempotency;
mod lambda;
mod limit_each;
mod option;
mod queue;
mod shared;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::raw;
use crate::config::{
    Config, ConfigError, FunctionHandler, Naming, Places, Reading, Written, folder_of,
};
use crate::failure::Error;
use crate::handler::{Handler, function};
use crate::queue::{Connections, Message, short_name};

/// A host: queues, a handler and a policy for each, and what they share.
///
/// Everything that a `backstop.toml` can say has a method here, with the same name and the same default (see `host/docs/deploy/configuration.md`). Values are checked when the host starts; an error names the method and what it expects. The methods of a queue apply to the queue named last by [`queue`](Self::queue) or [`and_queue`](Self::and_queue), and to all queues after [`from_file`](Self::from_file).
///
/// ```no_run
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use backstop_core::failure::Error;
/// # use backstop_host::Backstop;
/// # use backstop_queue::Message;
/// # async fn ship(_: Arc<Message>) -> Result<(), Error> { Ok(()) }
/// # async fn bill(_: Arc<Message>) -> Result<(), Error> { Ok(()) }
/// # async fn start() -> Result<(), backstop_host::run::RunError> {
/// Backstop::queue("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
///     .policy("oci://registry.example.com/policies/orders:live")
///     .set("base", "2s")
///     .max_age(Duration::from_secs(86_400))
///     .handler(ship)
///     .and_queue("https://sqs.eu-west-1.amazonaws.com/123456789012/invoices")
///     .handler(bill)
///     .metrics("127.0.0.1:9464")
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a host does nothing until `run` or `run_until` is awaited"]
pub struct Backstop {
    raw: raw::Config,
    /// The directory of the file; relative paths in `raw` start from it.
    folder: PathBuf,
    places: Places,
    written: Written,
    naming: Naming,
    /// The queue that the methods apply to; all queues if there is none.
    current: Option<String>,
    /// The first mistake that a method found.
    mistake: Option<ConfigError>,
    pub(crate) messages: Vec<(String, Vec<String>)>,
    pub(crate) connections: Option<Arc<Connections>>,
}

impl Backstop {
    /// A host for the queue with this URL. `local:NAME` is a queue in memory, for tests. The queue is called by the last part of its URL, unless [`named`](Self::named) says otherwise.
    pub fn queue(url: impl Into<String>) -> Self {
        Self::with_raw(raw::Config::default(), PathBuf::new()).and_queue(url)
    }

    /// A host for the queues of a `backstop.toml`. Its queues need no `handler`: [`handler_of`](Self::handler_of) sets it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let written = Written::read(path)?;
        let mut host = Self::with_raw(written.parse()?, folder_of(path).to_owned());
        host.written = written;
        Ok(host)
    }

    fn with_raw(raw: raw::Config, folder: PathBuf) -> Self {
        Self {
            raw,
            folder,
            places: Places::default(),
            written: Written::default(),
            naming: Naming::Methods,
            current: None,
            mistake: None,
            messages: Vec::new(),
            connections: None,
        }
    }

    /// Adds another queue. The following methods apply to it.
    pub fn and_queue(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        let name = short_name(&url).to_owned();
        self.add(
            name,
            raw::Queue {
                url,
                ..raw::Queue::default()
            },
        );
        self.value("url", |_| {}).value("handler", |_| {})
    }

    fn add(&mut self, name: String, queue: raw::Queue) {
        if self.raw.queues.contains_key(&name) {
            self.mistake.get_or_insert(ConfigError::Value {
                place: "named".to_owned(),
                expected: format!(
                    "two queues are called `{name}`: expected another name for one of them"
                ),
            });
        }
        self.raw.queues.insert(name.clone(), queue);
        self.current = Some(name);
    }

    /// The name of the queue in logs, records and metrics.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if let Some(before) = self.current.take()
            && let Some(queue) = self.raw.queues.remove(&before)
        {
            self.places.rename_queue(&before, &name);
            self.messages
                .iter_mut()
                .filter(|(queue, _)| *queue == before)
                .for_each(|(queue, _)| name.clone_into(queue));
            self.add(name, queue);
        }
        self
    }

    /// The function that handles the messages of the queue. `Ok` deletes the message; an error goes to the policy, which classifies it by its code.
    pub fn handler<F, W>(self, work: F) -> Self
    where
        F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.handle_with(Arc::new(function(work)))
    }

    /// The function that handles the messages of the queue with this name. See [`handler`](Self::handler).
    pub fn handler_of<F, W>(mut self, queue: &str, work: F) -> Self
    where
        F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        if !self.raw.queues.contains_key(queue) {
            self.mistake.get_or_insert(ConfigError::Value {
                place: "handler_of".to_owned(),
                expected: format!(
                    "there is no queue `{queue}`: expected the name of one in [queues]"
                ),
            });
        }
        let before = self.current.replace(queue.to_owned());
        let mut host = self.handler(work);
        host.current = before;
        host
    }

    /// The handler as a value, such as one that checks its own configuration at the start.
    pub fn handle_with(self, handler: Arc<dyn Handler>) -> Self {
        let handler = FunctionHandler(handler);
        self.value("handler", |queue| {
            queue.handler = Some(raw::Handler {
                function: Some(handler.clone()),
                ..raw::Handler::default()
            });
        })
    }

    /// Fills a local queue with messages. The host ends when all of them are done. For tests and trials.
    pub fn messages<B: Into<String>>(mut self, bodies: impl IntoIterator<Item = B>) -> Self {
        let bodies = bodies.into_iter().map(Into::into).collect();
        if let Some(name) = &self.current {
            self.messages.push((name.clone(), bodies));
        }
        self
    }

    /// Reaches the queues over these connections: with an SDK configuration of your own, or to share local queues with a test.
    pub fn connections(mut self, connections: Arc<Connections>) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Calls a method with a value, if there is one: `.with(timeout, Backstop::max_age)`.
    pub fn with<T>(self, value: Option<T>, method: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => method(self, value),
            None => self,
        }
    }

    /// As [`queue`](Self::queue), with errors that name values by the flags of the command line.
    #[doc(hidden)]
    pub fn queue_by_flags(url: impl Into<String>) -> Self {
        let mut host = Self::with_raw(raw::Config::default(), PathBuf::new());
        host.naming = Naming::Flags;
        host.and_queue(url)
    }

    /// A file in which each queue has a handler, with errors that name overriding values by their flags.
    #[doc(hidden)]
    pub fn file_by_flags(path: &Path) -> Result<Self, ConfigError> {
        let written = Written::read(path)?;
        let mut host = Self::with_raw(written.parse_complete()?, folder_of(path).to_owned());
        host.written = written;
        host.naming = Naming::Flags;
        Ok(host)
    }

    /// As [`into_config`](Self::into_config), with the file, to compare it with a later reading.
    #[doc(hidden)]
    pub fn into_reading(self) -> Result<Reading, ConfigError> {
        let (written, places) = (self.written.clone(), self.places.clone());
        let config = self.into_config()?;
        Ok(Reading {
            config,
            file: written.table(),
            places,
        })
    }

    /// Checks and converts all values.
    #[doc(hidden)]
    pub fn into_config(self) -> Result<Config, ConfigError> {
        match self.mistake {
            Some(mistake) => Err(mistake),
            None => self
                .raw
                .convert(&self.folder, &self.places)
                .map_err(|error| self.written.locate(error, &self.places)),
        }
    }

    /// Sets a value of the current queue, or of all.
    fn value(mut self, key: &str, set: impl Fn(&mut raw::Queue)) -> Self {
        for (name, queue) in &mut self.raw.queues {
            if self.current.as_ref().is_none_or(|current| current == name) {
                set(queue);
                self.places
                    .name(format!("queues.{name}.{key}"), self.naming.queue(name, key));
            }
        }
        self
    }

    fn top(mut self, key: &str) -> Self {
        self.places.name(key, self.naming.top(key));
        self
    }

    /// A path that is relative to the working directory, and not to the file's.
    pub(crate) fn in_working_directory(&self, path: &Path) -> PathBuf {
        if self.folder.as_os_str().is_empty() {
            return path.to_owned();
        }
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }
}

/// A table of keys whose fields methods set.
pub(crate) trait Change: Sized {
    /// Changes the table, of the current queue or of all if it is a queue's, and names the value of the field by the method or the flag.
    fn change(host: Backstop, field: &str, set: impl Fn(&mut Self)) -> Backstop;
}

/// The tables within a queue, by where they are.
macro_rules! of_queue {
    ($($table:ident: $at:literal, |$queue:ident| $place:expr;)*) => {$(
        impl Change for raw::$table {
            fn change(host: Backstop, field: &str, set: impl Fn(&mut Self)) -> Backstop {
                let key = format!("{}{}", $at, field.replace('_', "-"));
                host.value(&key, |$queue| set($place))
            }
        }
    )*};
}

of_queue! {
    Queue: "", |queue| queue;
    Handler: "handler.", |queue| queue.handler.get_or_insert_default();
    Idempotency: "idempotency.", |queue| queue.idempotency.get_or_insert_default();
    Breaker: "breaker.", |queue| queue.breaker.get_or_insert_default();
    LimitEach: "limit-each.", |queue| queue.limit_each.get_or_insert_default();
}

/// The tables that all queues share.
macro_rules! shared {
    ($($table:ident: $at:literal, |$raw:ident| $place:expr;)*) => {$(
        impl Change for raw::$table {
            fn change(mut host: Backstop, field: &str, set: impl Fn(&mut Self)) -> Backstop {
                let $raw = &mut host.raw;
                set($place);
                host.top(&format!("{}{}", $at, field.replace('_', "-")))
            }
        }
    )*};
}

shared! {
    Config: "", |raw| raw;
    AdminProxy: "admin-proxy.", |raw| raw.admin_proxy.get_or_insert_default();
    Decisions: "decisions.", |raw| raw.decisions.get_or_insert_default();
    Policies: "policies.", |raw| raw.policies.get_or_insert_default();
    Rollback: "policies.rollback.", |raw| raw.policies.get_or_insert_default().rollback.get_or_insert_default();
    Limits: "limits.", |raw| raw.limits.get_or_insert_default();
    CompileLimits: "limits.compile.", |raw| raw.limits.get_or_insert_default().compile.get_or_insert_default();
    Lambda: "lambda.", |raw| raw.lambda.get_or_insert_default();
}

#[cfg(test)]
mod tests;
