//! Receives messages with long polls, as many as there are permits, and starts a lane for each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::budget::Budget;
use super::{Shared, lane};
use crate::queue::{BATCH_ENTRIES, Message};

/// The longest poll that SQS allows. It makes the fewest requests on an idle queue.
const LONG_POLL: Duration = Duration::from_secs(20);

/// The longest poll while messages are in flight. A shutdown returns messages after the last poll has ended, because the poll would receive them again.
const BUSY_POLL: Duration = Duration::from_secs(2);

/// How long to wait for the permits of a full batch once there is one.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// The shortest poll.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// The waits while SQS is unreachable.
const BACKOFF: Backoff = Backoff::milliseconds(200, 20_000);

/// Receives until the consumer stops and the poll under way has ended. A dropped poll would continue in SQS and hide messages that nobody handles.
pub(super) async fn run(
    shared: &Arc<Shared>,
    lanes: &TaskTracker,
    permits: &Arc<Semaphore>,
    budget: &Arc<Budget>,
) {
    let mut failures = 0;
    while !shared.stop.is_cancelled() {
        let Some(permits) = some_permits(shared, permits, budget).await else {
            return;
        };
        let longest = if lanes.is_empty() {
            LONG_POLL
        } else {
            BUSY_POLL
        };
        // A shutdown waits for the poll no longer than the grace period.
        let wait = longest.min(shared.options.grace).max(SHORTEST_POLL);
        shared.stats.receive_requests.add(1);
        let poll = shared.queue.receive(permits.len(), wait, shared.visibility);
        tokio::pin!(poll);
        let received = tokio::select! {
            received = &mut poll => received,
            () = shared.stop.cancelled() => {
                if shared.queue.receive_is_cancel_safe() {
                    return;
                }
                // Its messages are returned at once.
                poll.await
            }
        };
        match received {
            Ok(messages) => {
                if failures > 0 {
                    tracing::info!(queue = shared.name, failures, "receiving again");
                    failures = 0;
                }
                shared
                    .stats
                    .received
                    .add(messages.len().try_into().unwrap_or(u64::MAX));
                start(shared, lanes, messages, permits, budget);
            }
            Err(error) => {
                failures += 1;
                shared.stats.receive_errors.add(1);
                if failures == 1 {
                    tracing::error!(queue = shared.name, %error, "can't receive: retrying until it works");
                }
                tokio::select! {
                    () = sleep(BACKOFF.wait(failures, rand::random())) => {}
                    () = shared.stop.cancelled() => return,
                }
            }
        }
    }
}

/// Permits for up to ten messages, once there are bytes left: at least one, and more if they become free soon. `None` if the consumer stops.
async fn some_permits(
    shared: &Shared,
    permits: &Arc<Semaphore>,
    budget: &Budget,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = async {
        budget.has_bytes_left().await;
        Arc::clone(permits).acquire_owned().await.ok()
    };
    let first = tokio::select! {
        permit = first => permit?,
        () = shared.stop.cancelled() => return None,
    };
    let mut acquired = vec![first];
    let full = async {
        while acquired.len() < BATCH_ENTRIES.min(shared.options.max_in_flight)
            && let Ok(permit) = Arc::clone(permits).acquire_owned().await
        {
            acquired.push(permit);
        }
    };
    // Fewer suffice if the others are in use for longer.
    let _ = timeout(BATCH_WAIT, full).await;
    Some(acquired)
}

/// Starts a lane for each message, or on a FIFO queue for each message group.
fn start(
    shared: &Arc<Shared>,
    lanes: &TaskTracker,
    messages: Vec<Message>,
    mut permits: Vec<OwnedSemaphorePermit>,
    budget: &Arc<Budget>,
) {
    for messages in into_lanes(messages, shared.fifo) {
        let permits: Vec<_> = messages.iter().filter_map(|_| permits.pop()).collect();
        let share = budget.hold(messages.iter().map(|message| message.size()).sum());
        let shared = Arc::clone(shared);
        lanes.spawn(async move {
            lane::run(&shared, messages).await;
            drop((permits, share));
        });
    }
}

fn into_lanes(messages: Vec<Message>, fifo: bool) -> Vec<VecDeque<Arc<Message>>> {
    let mut lanes: Vec<VecDeque<Arc<Message>>> = Vec::new();
    for message in messages.into_iter().map(Arc::new) {
        let same_group = |lane: &&mut VecDeque<Arc<Message>>| {
            fifo && lane
                .front()
                .is_some_and(|first| first.group == message.group)
        };
        match lanes.iter_mut().find(same_group) {
            Some(lane) => lane.push_back(message),
            None => lanes.push(VecDeque::from([message])),
        }
    }
    lanes
}
