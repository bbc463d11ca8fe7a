//! Which dead-letter queue is meant: a URL, an ARN, or the name of a queue in the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_host::config::{Config, parse_endpoint};
use backstop_queue::{Connections, Queue};
use clap::Parser;

use super::reading::unusable;
use crate::error::{Context, Exit, Result};
use crate::hosts::DEFAULT_CONFIG;

/// Names dead-letter queues.
#[derive(Debug, Parser)]
pub(crate) struct QueueArgs {
    /// The dead-letter queue: its URL or ARN; or the name of a queue in the configuration, for the dead-letter queues of that queue
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: String,

    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

/// How queues are found and reached.
#[derive(Debug, Parser)]
pub(crate) struct AccessArgs {
    /// The configuration in which a name is looked up [default: backstop.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Use this endpoint in place of the region's own
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub(crate) endpoint_url: Option<String>,
}

/// The dead-letter queues that were named.
#[derive(Debug)]
pub(crate) struct DeadLetterQueues {
    /// Opens further queues.
    pub(crate) connections: Arc<Connections>,
    /// The dead-letter queues: one, unless a configured queue has several.
    pub(crate) queues: Vec<Arc<dyn Queue>>,
    /// The queue in the configuration whose dead-letter queues these are.
    pub(crate) source: Option<Arc<dyn Queue>>,
    /// The configuration, if the queue was named in it.
    pub(crate) config: Option<Config>,
    /// The endpoint in place of the region's own.
    pub(crate) endpoint_url: Option<String>,
}

impl QueueArgs {
    /// Finds the dead-letter queues.
    pub(crate) async fn open(&self) -> Result<DeadLetterQueues> {
        self.access.open(&self.queue).await
    }
}

impl AccessArgs {
    /// Finds the dead-letter queues with this name.
    pub(crate) async fn open(&self, name: &str) -> Result<DeadLetterQueues> {
        if name.starts_with("local:") {
            return Err(Exit::Usage.because(format!(
                "{name} is a queue in the memory of its host: no other program can read it"
            )));
        }
        let is_address = name.contains("://") || name.starts_with("arn:");
        if !is_address {
            return self.configured(name).await;
        }
        let connections = Arc::new(Connections::new(self.endpoint_url.clone()));
        let queue = address(&connections, name).await?;
        Ok(DeadLetterQueues {
            connections,
            queues: vec![queue],
            source: None,
            config: None,
            endpoint_url: self.endpoint_url.clone(),
        })
    }

    async fn configured(&self, name: &str) -> Result<DeadLetterQueues> {
        let default = Path::new(DEFAULT_CONFIG);
        let path = self.config.as_deref().unwrap_or(default);
        let config = Config::read(path).with_context(|| {
            format!("`{name}` is neither a URL nor an ARN, so it is looked up in {} (--config names another file)", path.display())
        })?;
        let path = path.display();
        let queue = config.queues.iter().find(|queue| queue.name == name);
        let lambda = config.lambda.iter().find(|lambda| lambda.name() == name);
        let (source, dead) = match (queue, lambda) {
            (Some(queue), _) => (Some(queue.url.as_str()), &queue.dead_letter_queues),
            (None, Some(lambda)) => (lambda.retry_queue.as_deref(), &lambda.dead_letter_queues),
            (None, None) => {
                let names: Vec<_> = config.deciders().map(|(name, _)| name).collect();
                return Err(Exit::Usage.because(format!(
                    "{path} has no queue `{name}`, only {}; a dead-letter queue itself is named by its URL or ARN",
                    names.join(", ")
                )));
            }
        };
        let endpoint = self.endpoint_url.clone().or(config.endpoint_url.clone());
        let connections = Arc::new(Connections::new(endpoint.clone()));
        let source = match source {
            Some(url) => Some(connections.by_url(url).await),
            None => None,
        };
        let mut queues = Vec::new();
        for url in dead.urls() {
            queues.push(connections.by_url(url).await);
        }
        // A host uses the queue of the redrive policy for every class without a queue of its own.
        if dead.default.is_none()
            && let Some(source) = &source
            && let Some(redrive) = source.describe().await.map_err(|it| unusable(&it))?.redrive
        {
            let queue = address(&connections, &redrive.dead_letter_arn).await?;
            if queues.iter().all(|known| known.url() != queue.url()) {
                queues.push(queue);
            }
        }
        if queues.is_empty() {
            return Err(Exit::Usage.because(format!(
                "the queue `{name}` has no dead-letter queue: neither {path} nor a redrive policy names one"
            )));
        }
        Ok(DeadLetterQueues {
            connections,
            queues,
            source,
            config: Some(config),
            endpoint_url: endpoint,
        })
    }
}

/// The queue with this URL or ARN.
pub(crate) async fn address(connections: &Connections, name: &str) -> Result<Arc<dyn Queue>> {
    if name.starts_with("arn:") {
        return connections.by_arn(name).await.map_err(|it| unusable(&it));
    }
    Ok(connections.by_url(name).await)
}
