//! Opens a queue by its URL or ARN: in SQS, or a local one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{LocalQueues, Queue, QueueError, Sqs};

/// Opens queues. The SDK's configuration is loaded with the first SQS queue, so local queues need no credentials. A copy has the same local queues.
#[derive(Debug, Clone, Default)]
pub struct Connections {
    endpoint: Option<String>,
    sdk: OnceCell<aws_config::SdkConfig>,
    /// The local queues.
    pub local: LocalQueues,
    /// Queues that are open already, by their URLs.
    open: BTreeMap<String, Arc<dyn Queue>>,
}

impl Connections {
    /// Uses `endpoint`, if there is one, in place of the region's own.
    pub fn new(endpoint: Option<String>) -> Self {
        Self {
            endpoint,
            ..Self::default()
        }
    }

    /// With a queue that is open already: its URL, and an ARN that is the same, lead to it.
    pub fn with_open(mut self, queue: Arc<dyn Queue>) -> Self {
        self.open.insert(queue.url().to_owned(), queue);
        self
    }

    /// The endpoint in place of the region's own.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Uses an existing SDK configuration.
    pub fn with_sdk(sdk: aws_config::SdkConfig) -> Self {
        Self {
            sdk: OnceCell::new_with(Some(sdk)),
            ..Self::default()
        }
    }

    /// The SDK configuration, with credentials, region and endpoint from the usual environment and profiles.
    pub async fn sdk(&self) -> &aws_config::SdkConfig {
        self.sdk
            .get_or_init(|| async {
                let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest());
                if let Some(endpoint) = &self.endpoint {
                    loader = loader.endpoint_url(endpoint);
                }
                loader.load().await
            })
            .await
    }

    /// The queue with this URL, or `local:NAME`.
    pub async fn by_url(&self, url: &str) -> Arc<dyn Queue> {
        if let Some(open) = self.open.get(url) {
            return Arc::clone(open);
        }
        match url.strip_prefix("local:") {
            Some(name) => self.local.named(name),
            None => Arc::new(Sqs::new(self.sdk().await).queue(url)),
        }
    }

    /// The queue with this ARN, or `local:NAME`.
    pub async fn by_arn(&self, arn: &str) -> Result<Arc<dyn Queue>, QueueError> {
        if let Some(open) = self.open.get(arn) {
            return Ok(Arc::clone(open));
        }
        match arn.strip_prefix("local:") {
            Some(name) => Ok(self.local.named(name)),
            None => Ok(Arc::new(
                Sqs::new(self.sdk().await).queue_by_arn(arn).await?,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalQueue, LocalSettings};

    #[tokio::test]
    async fn a_queue_that_is_open_already_is_found_by_its_url() {
        let settings = || LocalSettings::default();
        let (open, other) = (
            LocalQueue::new("orders", settings()),
            LocalQueue::new("orders", settings()),
        );
        open.send(&[crate::Outgoing::new("one")]).await.unwrap();
        assert!(other.is_empty());
        let connections = Connections::default().with_open(open);
        for found in [
            connections.by_url("local:orders").await,
            connections.by_arn("local:orders").await.unwrap(),
        ] {
            assert_eq!(found.describe().await.unwrap().visible, Some(1));
        }
        let none = connections.by_url("local:others").await;
        assert_eq!(none.describe().await.unwrap().visible, Some(0));
    }
}
