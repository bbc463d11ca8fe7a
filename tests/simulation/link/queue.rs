//! The requests of a host or an operator.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_queue::{
    BatchResult, Description, Message, Outgoing, Queue, QueueError, ReceiptHandle, TrackedResult,
    VisibilityTimeout,
};
use tokio::time::sleep;

use super::{CHANGE, DELETE, Event, Fate, Kind, Link, RECEIVE, SEND, number_of};

#[async_trait]
impl Queue for Link {
    fn url(&self) -> &str {
        self.queue.url()
    }

    fn now(&self) -> Timestamp {
        self.queue.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        const OPERATION: &str = "GetQueueAttributes";
        let fate = self.there(OPERATION).await?;
        let description = self.described().await;
        self.back(OPERATION, fate).await?;
        if !self.dead {
            let (host, in_flight) = (self.host.id, description.in_flight.unwrap_or_default());
            self.world().happened(Event::Counted { host, in_flight });
        }
        Ok(description)
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let fate = self.there(RECEIVE).await?;
        let (world, host) = (self.world(), self.host.id);
        if world.strikes(Kind::EmptyReceives, (1, 2)) {
            sleep(wait).await;
            self.host.lives().await;
            return Ok(Vec::new());
        }
        let mut messages = self.queue.receive(max, wait, visibility).await?;
        for message in &messages {
            world.handed(message);
            let (number, count) = (number_of(&message.body), message.receive_count.get());
            if self.dead {
                continue;
            }
            world.happened(Event::Received {
                host,
                number,
                count,
            });
            if world.strikes(Kind::Duplicates, (1, 3)) {
                world.duplicate(message);
            }
        }
        let more = if self.dead {
            Vec::new()
        } else {
            world.take_duplicates(max - messages.len())
        };
        for message in &more {
            let number = number_of(&message.body);
            world.happened(Event::Duplicated { host, number });
        }
        messages.extend(more);
        for message in &messages {
            if matches!(fate, Fate::Lost) {
                self.faulty(RECEIVE, Some(number_of(&message.body)));
            }
        }
        self.back(RECEIVE, fate).await?;
        Ok(messages)
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        let numbers = handles.iter().map(|it| self.world().number_of_handle(it));
        let (fate, fails) = self.batch(DELETE, numbers.collect()).await?;
        let mut results = Vec::new();
        for (handle, fails) in handles.iter().zip(fails) {
            results.push(match fails {
                Some(error) => Err(error),
                None => self.deleted(handle).await,
            });
        }
        self.back(DELETE, fate).await?;
        Ok(results)
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        let numbers = changes
            .iter()
            .map(|it| self.world().number_of_handle(&it.0));
        let (fate, fails) = self.batch(CHANGE, numbers.collect()).await?;
        let mut results = Vec::new();
        for ((handle, timeout), fails) in changes.iter().zip(fails) {
            results.push(match fails {
                Some(error) => Err(error),
                None => self.hidden(handle, *timeout).await,
            });
        }
        self.back(CHANGE, fate).await?;
        Ok(results)
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        let numbers = messages.iter().map(|it| number_of(&it.body));
        let (fate, fails) = self.batch(SEND, numbers.collect()).await?;
        let mut results = Vec::new();
        for (message, fails) in messages.iter().zip(fails) {
            results.push(match fails {
                Some(error) => Err(error),
                None => self.sent(message).await,
            });
        }
        self.back(SEND, fate).await?;
        Ok(results)
    }

    async fn tags(&self) -> Result<HashMap<String, String>, QueueError> {
        const OPERATION: &str = "ListQueueTags";
        let fate = self.there(OPERATION).await?;
        let tags = self.world().tags();
        self.back(OPERATION, fate).await?;
        Ok(tags)
    }

    async fn set_tag(&self, key: &str, value: Option<&str>) -> Result<(), QueueError> {
        const OPERATION: &str = "TagQueue";
        let fate = self.there(OPERATION).await?;
        self.world().set_tag(key, value);
        self.back(OPERATION, fate).await
    }
}
