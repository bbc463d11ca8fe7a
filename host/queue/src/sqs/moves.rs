//! SQS's own redrive: tasks that move all messages of a dead-letter queue.

use super::SqsQueue;
use crate::QueueError;

/// A task that moves messages out of a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTask {
    /// Identifies a running task. SQS does not report it for others.
    pub handle: Option<String>,
    /// `RUNNING`, `COMPLETED`, `CANCELLING`, `CANCELLED` or `FAILED`.
    pub status: String,
    /// How many messages it has moved, approximately.
    pub moved: u64,
    /// How many messages there were at its start.
    pub about: Option<u64>,
    /// Why it failed.
    pub failure: Option<String>,
}

impl MoveTask {
    /// Whether it goes on.
    pub fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "RUNNING" | "CANCELLING")
    }
}

impl SqsQueue {
    /// Starts to move all messages of the dead-letter queue with this ARN: to the queues from which SQS has moved them here, or to `destination`. Returns the task's handle.
    pub async fn start_move(
        &self,
        arn: &str,
        destination: Option<&str>,
        per_second: Option<i32>,
    ) -> Result<String, QueueError> {
        const OPERATION: &str = "StartMessageMoveTask";
        let started = self
            .client
            .start_message_move_task()
            .source_arn(arn)
            .set_destination_arn(destination.map(str::to_owned))
            .set_max_number_of_messages_per_second(per_second)
            .send()
            .await
            .map_err(|error| QueueError::of(OPERATION, self.endpoint.failed(&error)))?;
        started.task_handle.ok_or_else(|| {
            QueueError::new(
                OPERATION,
                "InvalidAnswer",
                "the response has no task handle",
            )
        })
    }

    /// The latest task of the dead-letter queue with this ARN.
    pub async fn latest_move(&self, arn: &str) -> Result<Option<MoveTask>, QueueError> {
        let listed = self
            .client
            .list_message_move_tasks()
            .source_arn(arn)
            .max_results(1)
            .send()
            .await
            .map_err(|error| {
                QueueError::of("ListMessageMoveTasks", self.endpoint.failed(&error))
            })?;
        let task = listed.results.unwrap_or_default().into_iter().next();
        Ok(task.map(|task| MoveTask {
            handle: task.task_handle,
            status: task.status.unwrap_or_default(),
            moved: u64::try_from(task.approximate_number_of_messages_moved).unwrap_or(0),
            about: task
                .approximate_number_of_messages_to_move
                .and_then(|count| u64::try_from(count).ok()),
            failure: task.failure_reason,
        }))
    }

    /// Ends a task. What it has moved stays moved.
    pub async fn cancel_move(&self, handle: &str) -> Result<(), QueueError> {
        self.client
            .cancel_message_move_task()
            .task_handle(handle)
            .send()
            .await
            .map_err(|error| {
                QueueError::of("CancelMessageMoveTask", self.endpoint.failed(&error))
            })?;
        Ok(())
    }
}
