//! Opens a queue by its URL or ARN: in SQS, or a local one.

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
}

impl Connections {
    /// Uses `endpoint`, if there is one, in place of the region's own.
    pub fn new(endpoint: Option<String>) -> Self {
        Self {
            endpoint,
            ..Self::default()
        }
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
        match url.strip_prefix("local:") {
            Some(name) => self.local.named(name),
            None => Arc::new(Sqs::new(self.sdk().await).queue(url)),
        }
    }

    /// The queue with this ARN, or `local:NAME`.
    pub async fn by_arn(&self, arn: &str) -> Result<Arc<dyn Queue>, QueueError> {
        match arn.strip_prefix("local:") {
            Some(name) => Ok(self.local.named(name)),
            None => Ok(Arc::new(
                Sqs::new(self.sdk().await).queue_by_arn(arn).await?,
            )),
        }
    }
}
