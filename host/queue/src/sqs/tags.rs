//! The tags of a queue.

use std::collections::HashMap;

use super::SqsQueue;
use crate::QueueError;

impl SqsQueue {
    pub(super) async fn list_tags(&self) -> Result<HashMap<String, String>, QueueError> {
        let request = self.client.list_queue_tags().queue_url(&self.url);
        let listed = request
            .send()
            .await
            .map_err(|error| QueueError::of("ListQueueTags", self.endpoint.failed(&error)))?;
        Ok(listed.tags.unwrap_or_default())
    }

    pub(super) async fn tag(&self, key: &str, value: &str) -> Result<(), QueueError> {
        let request = self.client.tag_queue().queue_url(&self.url);
        let tagged = request.tags(key, value).send().await;
        tagged
            .map(|_| ())
            .map_err(|error| QueueError::of("TagQueue", self.endpoint.failed(&error)))
    }

    pub(super) async fn untag(&self, key: &str) -> Result<(), QueueError> {
        let request = self.client.untag_queue().queue_url(&self.url);
        let untagged = request.tag_keys(key).send().await;
        untagged
            .map(|_| ())
            .map_err(|error| QueueError::of("UntagQueue", self.endpoint.failed(&error)))
    }
}
