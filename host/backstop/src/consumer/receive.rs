//! The receiving end: long polls for as many messages as there is room for, and a lane for each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::jitter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::budget::Budget;
use super::{Shared, lane};
use crate::queue::{BATCH_ENTRIES, Message};

/// The longest poll that SQS allows: the fewest requests on a quiet queue.
const LONG_POLL: Duration = Duration::from_secs(20);

/// The longest poll while messages are in hand. What is in hand at the end is handed back when the last poll has come back, which would take it otherwise.
const BUSY_POLL: Duration = Duration::from_secs(2);

/// How long to wait for a full batch's room once there is room for one message.
const ROOM: Duration = Duration::from_millis(50);

/// The shortest poll.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// Waits while SQS can't be reached, in milliseconds: exponential with full jitter.
const BASE: u32 = 200;
const CAP: u32 = 20_000;

/// Receives until told to stop and the poll under way has come back: dropped, it would go on at the other side and take messages to nobody.
pub(super) async fn run(
    shared: &Arc<Shared>,
    lanes: &TaskTracker,
    room: &Arc<Semaphore>,
    budget: &Arc<Budget>,
) {
    let mut failures = 0;
    while !shared.stop.is_cancelled() {
        let Some(places) = some_room(shared, room, budget).await else {
            return;
        };
        let longest = if lanes.is_empty() {
            LONG_POLL
        } else {
            BUSY_POLL
        };
        // No longer than it can be waited for at the end.
        let wait = longest.min(shared.options.grace).max(SHORTEST_POLL);
        shared.stats.receive_requests.add(1);
        let poll = shared.queue.receive(places.len(), wait, shared.visibility);
        tokio::pin!(poll);
        let received = tokio::select! {
            received = &mut poll => received,
            () = shared.stop.cancelled() => {
                if shared.queue.receive_is_cancel_safe() {
                    return;
                }
                // What it brings is handed back at once.
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
                start(shared, lanes, messages, places, budget);
            }
            Err(error) => {
                failures += 1;
                shared.stats.receive_errors.add(1);
                if failures == 1 {
                    tracing::error!(queue = shared.name, %error, "can't receive: trying again until it works");
                }
                let pause = jitter::full(
                    BASE / 2,
                    jitter::exponential(BASE, CAP, failures),
                    rand::random(),
                );
                tokio::select! {
                    () = sleep(Duration::from_millis(pause.into())) => {}
                    () = shared.stop.cancelled() => return,
                }
            }
        }
    }
}

/// Places for up to ten messages, once there are bytes left for them: at least one, and more when they become free soon. None when it is time to stop.
async fn some_room(
    shared: &Shared,
    room: &Arc<Semaphore>,
    budget: &Budget,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = async {
        budget.has_left().await;
        Arc::clone(room).acquire_owned().await.ok()
    };
    let first = tokio::select! {
        place = first => place?,
        () = shared.stop.cancelled() => return None,
    };
    let mut places = vec![first];
    let full = async {
        while places.len() < BATCH_ENTRIES.min(shared.options.max_in_flight)
            && let Ok(place) = Arc::clone(room).acquire_owned().await
        {
            places.push(place);
        }
    };
    // Fewer will do where the others are busy for longer.
    let _ = timeout(ROOM, full).await;
    Some(places)
}

/// A lane for each message, or for each group of a FIFO queue, whose messages follow each other.
fn start(
    shared: &Arc<Shared>,
    lanes: &TaskTracker,
    messages: Vec<Message>,
    mut places: Vec<OwnedSemaphorePermit>,
    budget: &Arc<Budget>,
) {
    for messages in into_lanes(messages, shared.fifo) {
        let places: Vec<_> = messages.iter().filter_map(|_| places.pop()).collect();
        let held = budget.hold(messages.iter().map(Message::size).sum());
        let shared = Arc::clone(shared);
        lanes.spawn(async move {
            lane::run(&shared, messages).await;
            drop((places, held));
        });
    }
}

fn into_lanes(messages: Vec<Message>, fifo: bool) -> Vec<VecDeque<Message>> {
    let mut lanes: Vec<VecDeque<Message>> = Vec::new();
    for message in messages {
        let same_group = |lane: &&mut VecDeque<Message>| {
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
