//! Lambda's side of a handler: the environment of its process, and the event source mapping that invokes it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_host::lambda::BatchResponse;
use backstop_queue::{BATCH_ENTRIES, Message, Queue, Sqs, VisibilityTimeout};
use tokio::process::Command;

use crate::retries::event;
use backstop_tests::aws::{self, Queues};
use backstop_tests::runtime_api::RuntimeApi;

/// The environment that Lambda gives to a process, and nothing else; `root` is where its package is.
pub fn as_lambda_does<'a>(
    command: &'a mut Command,
    root: &Path,
    api: &RuntimeApi,
) -> &'a mut Command {
    command
        .env_clear()
        .envs(aws::CREDENTIALS)
        .env("AWS_SESSION_TOKEN", "test")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_LAMBDA_RUNTIME_API", &api.address)
        .env("AWS_LAMBDA_FUNCTION_NAME", "retries")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .env("LANG", "en_US.UTF-8")
        .env("TZ", ":UTC")
        .env("LAMBDA_TASK_ROOT", root)
}

/// The event source mapping with `ReportBatchItemFailures`, connected directly to the emulator: its requests are not counted.
#[derive(Debug)]
pub struct Mapping {
    queue: Arc<dyn Queue>,
    arn: String,
}

impl Mapping {
    /// The mapping of these queues.
    pub async fn of(queues: &Queues) -> Self {
        let sqs = Sqs::new(&aws::config(&queues.endpoint).await);
        Self {
            queue: Arc::new(sqs.queue(&queues.url)),
            arn: queues.arn().await,
        }
    }

    /// Passes a batch to the handler and deletes the messages that the response does not name. How many it names, or all if the handler failed; none if there was no batch.
    pub async fn hand_over(&self, api: &RuntimeApi) -> Option<usize> {
        let visibility = VisibilityTimeout::rounded_up(Duration::from_secs(60));
        let messages = self
            .queue
            .receive(BATCH_ENTRIES, Duration::from_secs(1), visibility)
            .await
            .unwrap();
        if messages.is_empty() {
            return None;
        }
        let event = serde_json::to_string(&event(&self.arn, &messages)).unwrap();
        let Ok(response) = api.invoke(event).await else {
            // The whole batch is delivered again.
            return Some(messages.len());
        };
        let response: BatchResponse = serde_json::from_value(response).unwrap();
        let kept = response.batch_item_failures;
        let is_kept = |message: &&Message| kept.iter().any(|it| it.item_identifier == message.id);
        let done: Vec<_> = messages
            .iter()
            .filter(|message| !is_kept(message))
            .map(|message| message.receipt_handle.clone())
            .collect();
        if !done.is_empty() {
            self.queue.delete(&done).await.unwrap();
        }
        Some(kept.len())
    }
}
