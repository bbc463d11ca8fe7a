//! A host from its start to its end: checked, run, drained.

use std::sync::Arc;
use std::{fmt, io};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::builder::Backstop;
use crate::config::{Config, ConfigError};
use crate::consumer::Summary;
use crate::queue::{
    BATCH_ENTRIES, Connections, EntryError, LocalQueue, Outgoing, Queue, QueueError,
};
use crate::service::{Service, StartError};
use crate::text::chain;

/// Why a host did not run. `{:?}` shows the message with its causes, since `main` prints that of the error it returns.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A value is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A policy, a queue, a handler or something else that the host needs can't be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The signals that stop the host can't be listened for.
    #[error("can't listen for SIGINT and SIGTERM")]
    Signals(#[source] io::Error),
    /// Only a queue in memory is filled with messages.
    #[error("messages: queue `{0}` is not in memory: expected a URL such as local:orders")]
    NotLocal(String),
    /// A message for a queue in memory was rejected.
    #[error("messages: queue `{queue}` rejects one")]
    Message {
        /// The queue's name.
        queue: String,
        /// The cause.
        #[source]
        cause: EntryError,
    },
    /// A queue in memory can't be filled.
    #[error("messages: can't fill queue `{queue}`")]
    Fill {
        /// The queue's name.
        queue: String,
        /// The cause.
        #[source]
        cause: QueueError,
    },
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self))
    }
}

/// The counts of each queue, by its name.
#[derive(Debug, Clone, Default)]
pub struct Summaries(pub Vec<(String, Summary)>);

impl Summaries {
    /// The counts of the queue with this name.
    pub fn get(&self, queue: &str) -> Option<&Summary> {
        let found = self.0.iter().find(|(name, _)| name == queue);
        found.map(|(_, summary)| summary)
    }
}

impl fmt::Display for Summaries {
    /// `orders: 2 succeeded, 1 retried, 1 dead-lettered`, a line for each queue.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, counts)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(
                f,
                "{separator}{name}: {} succeeded, {} retried, {} dead-lettered",
                counts.succeeded, counts.retried, counts.dead_lettered
            )?;
        }
        Ok(())
    }
}

impl Backstop {
    /// Runs until Ctrl-C or SIGTERM, then drains, and returns the counts of each queue.
    ///
    /// The start checks the configuration, the queues and the handlers, and loads the policies; it fails with all faults at once. While the host runs, it activates new versions of the policies and answers `backstop policy status` and `backstop policy rollback`. After the signal, it receives no more messages, lets attempts finish within the grace time, and makes the remaining messages visible again.
    pub async fn run(self) -> Result<Summaries, RunError> {
        let stop = CancellationToken::new();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
        let signalled = stop.clone();
        let listening = tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tracing::info!("stopping: attempts under way are finished first");
            signalled.cancel();
        });
        let ended = self.run_until(stop).await;
        listening.abort();
        ended
    }

    /// As [`run`](Self::run), until `stop` is cancelled. Signals are left to the program.
    pub async fn run_until(mut self, stop: CancellationToken) -> Result<Summaries, RunError> {
        let connections = self.connections.take();
        let messages = std::mem::take(&mut self.messages);
        let config = self.into_config()?;
        let connections =
            connections.unwrap_or_else(|| Arc::new(Connections::new(config.endpoint_url.clone())));
        let stop = stop.child_token();
        let filled = fill(&config, messages, &connections).await?;
        let starting = Service::prepare(config, &connections);
        let service = tokio::select! {
            service = starting => service?,
            () = stop.cancelled() => return Ok(Summaries::default()),
        };
        if !filled.is_empty() {
            let stop = stop.clone();
            tokio::spawn(async move {
                for queue in filled {
                    queue.emptied().await;
                }
                stop.cancel();
            });
        }
        Ok(Summaries(service.run(stop).await))
    }
}

/// Sends the messages to their queues.
async fn fill(
    config: &Config,
    messages: Vec<(String, Vec<String>)>,
    connections: &Connections,
) -> Result<Vec<Arc<LocalQueue>>, RunError> {
    let mut filled = Vec::new();
    for (name, bodies) in messages {
        let queue = config.queues.iter().find(|queue| queue.name == name);
        let local = queue.and_then(|queue| queue.url.strip_prefix("local:"));
        let Some(local) = local else {
            return Err(RunError::NotLocal(name));
        };
        let queue = connections.local.named(local);
        let messages: Vec<_> = bodies.into_iter().map(Outgoing::new).collect();
        send(&name, &queue, &messages).await?;
        filled.push(queue);
    }
    Ok(filled)
}

/// Sends messages to the queue with this name.
pub(crate) async fn send(
    name: &str,
    queue: &LocalQueue,
    messages: &[Outgoing],
) -> Result<(), RunError> {
    for batch in messages.chunks(BATCH_ENTRIES) {
        let sent = queue.send(batch).await.map_err(|cause| RunError::Fill {
            queue: name.to_owned(),
            cause,
        })?;
        for sent in sent {
            sent.map_err(|cause| RunError::Message {
                queue: name.to_owned(),
                cause,
            })?;
        }
    }
    Ok(())
}
