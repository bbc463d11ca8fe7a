//! Receives messages with long polls, several at once while the queue is busy, and gives each message to a worker as a lane.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use metrics::Gauge;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::budget::{Budget, Share};
use super::heartbeat::Heartbeat;
use super::polling::Polling;
use super::workers::{Lane, Workers};
use crate::hold;
use crate::queue::{BATCH_ENTRIES, Message, QueueError};
use crate::telemetry;

/// The longest poll that SQS allows. It makes the fewest requests on an idle queue.
const LONG_POLL: Duration = Duration::from_secs(20);

/// The longest poll while messages are in flight or other polls are under way. A shutdown returns messages after the last poll has ended, because the poll would receive them again.
const BUSY_POLL: Duration = Duration::from_secs(2);

/// How long to wait for the permits of a full batch once there is one.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// The shortest poll.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// The waits while SQS is unreachable.
const BACKOFF: Backoff = Backoff::milliseconds(200, 20_000);

/// The pollers of one queue: as many as the queue has work for.
///
/// A poll that comes back full starts another poller, as long as there is room for its messages. One that comes back with a single message, with none or with an error ends its poller, except for the last one.
pub(super) struct Pollers {
    permits: Arc<Semaphore>,
    budget: Arc<Budget>,
    lanes: TaskTracker,
    workers: Workers,
    running: AtomicUsize,
    most: usize,
    /// One poller collects permits at a time: if they are scarce, one full poll is cheaper than several small ones.
    collecting: Mutex<()>,
    /// Whether the polls succeed.
    polling: Arc<Polling>,
    /// The bytes of the largest receive so far: what a poll under way is expected to bring.
    largest: AtomicUsize,
    polls: Gauge,
    tasks: TaskTracker,
}

/// Room for the messages of one poll.
struct Room {
    permits: OwnedSemaphorePermit,
    _bytes: Share,
}

impl Pollers {
    /// Starts the first poller.
    pub(super) fn start(shared: &Arc<Shared>, lanes: &TaskTracker) -> Arc<Self> {
        let options = &shared.options;
        let pollers = Arc::new(Self {
            permits: Arc::new(Semaphore::new(options.max_in_flight.max(1))),
            budget: Budget::new(options.max_bytes_in_flight),
            lanes: lanes.clone(),
            workers: Workers::new(),
            running: AtomicUsize::new(0),
            most: options.max_polls.max(1),
            collecting: Mutex::default(),
            polling: Arc::clone(shared.stats.polling()),
            largest: AtomicUsize::new(0),
            polls: telemetry::Queue::named(&shared.name).polls(),
            tasks: TaskTracker::new(),
        });
        pollers.add(shared);
        pollers
    }

    /// Returns when the consumer has stopped and the polls under way have ended. A dropped poll would continue in SQS and hide messages that nobody handles.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Starts another poller, unless there are enough.
    fn add(self: &Arc<Self>, shared: &Arc<Shared>) {
        let more = |running| (running < self.most).then_some(running + 1);
        if self.running.fetch_update(Relaxed, Relaxed, more).is_ok() {
            self.polls.increment(1);
            let (pollers, shared) = (Arc::clone(self), Arc::clone(shared));
            let running = self.polling.poller();
            self.tasks.spawn(async move {
                while pollers.poll(&shared).await {}
                pollers.polls.decrement(1);
                drop(running);
            });
        }
    }

    /// Ends the poller that calls this, unless it is the last one. Returns whether it ended.
    fn retire(&self) -> bool {
        let fewer = |running| (running > 1).then(|| running - 1);
        self.running.fetch_update(Relaxed, Relaxed, fewer).is_ok()
    }

    fn is_alone(&self) -> bool {
        self.running.load(Relaxed) == 1
    }

    /// Makes one poll. Returns whether its poller goes on.
    async fn poll(self: &Arc<Self>, shared: &Arc<Shared>) -> bool {
        let Some(room) = self.room(shared).await else {
            return false;
        };
        let is_idle = self.is_alone() && self.lanes.is_empty();
        let longest = if is_idle { LONG_POLL } else { BUSY_POLL };
        // A shutdown waits for the poll no longer than the grace period.
        let wait = longest.min(shared.options.grace).max(SHORTEST_POLL);
        let asked = room.permits.num_permits();
        shared.stats.receive_requests.add(1);
        let poll = shared.queue.receive(asked, wait, shared.visibility);
        tokio::pin!(poll);
        let received = tokio::select! {
            received = &mut poll => received,
            () = shared.stop.cancelled() => {
                if shared.queue.receive_is_cancel_safe() {
                    return false;
                }
                // Its messages are returned at once.
                poll.await
            }
        };
        let goes_on = match received {
            Ok(messages) => {
                self.succeeded(shared);
                let received = messages.len();
                shared
                    .stats
                    .received
                    .add(received.try_into().unwrap_or(u64::MAX));
                self.start_lanes(shared, messages, room);
                if received == BATCH_ENTRIES && self.has_room() {
                    self.add(shared);
                }
                received > 1 || !self.retire()
            }
            Err(error) => {
                drop(room);
                self.failed(shared, &error).await
            }
        };
        goes_on && !shared.stop.is_cancelled()
    }

    fn has_room(&self) -> bool {
        self.permits.available_permits() >= BATCH_ENTRIES && self.budget.is_left()
    }

    fn succeeded(&self, shared: &Shared) {
        let failures = self.polling.succeeded();
        if failures > 0 {
            tracing::info!(queue = shared.name, failures, "receiving again");
        }
    }

    /// Counts a failed poll. Returns whether its poller goes on, after a wait.
    async fn failed(&self, shared: &Shared, error: &QueueError) -> bool {
        shared.stats.receive_errors.add(1);
        shared.holds.failed(error);
        let failures = self.polling.failed();
        if failures == 1 {
            tracing::error!(queue = shared.name, %error, "can't receive messages: retrying until it works");
        }
        if self.retire() {
            return false;
        }
        tokio::select! {
            () = sleep(BACKOFF.wait(failures, rand::random())) => true,
            () = shared.stop.cancelled() => false,
        }
    }

    /// Permits for up to ten messages, once there are bytes left: at least one, and more if they become free soon. `None` if the consumer stops.
    async fn room(&self, shared: &Shared) -> Option<Room> {
        let first = async {
            let collecting = self.collecting.lock().await;
            self.budget.has_bytes_left().await;
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
            permit.map(|permit| (collecting, permit))
        };
        let (_collecting, first) = tokio::select! {
            first = first => first?,
            () = shared.stop.cancelled() => return None,
        };
        let mut permits = first;
        let most = BATCH_ENTRIES.min(shared.options.max_in_flight);
        let missing = u32::try_from(most.saturating_sub(1)).unwrap_or_default();
        let semaphore = || Arc::clone(&self.permits);
        match timeout(BATCH_WAIT, semaphore().acquire_many_owned(missing)).await {
            Ok(Ok(others)) => permits.merge(others),
            // Fewer suffice if the others are in use for longer.
            Ok(Err(_)) | Err(_) => {
                while permits.num_permits() < most
                    && let Ok(another) = semaphore().try_acquire_owned()
                {
                    permits.merge(another);
                }
            }
        }
        let _bytes = self.budget.hold(self.largest.load(Relaxed));
        Some(Room { permits, _bytes })
    }

    /// Starts a lane for each message, or on a FIFO queue for each message group.
    fn start_lanes(&self, shared: &Arc<Shared>, messages: Vec<Message>, mut room: Room) {
        let now = shared.queue.now();
        let messages: Vec<_> = messages
            .into_iter()
            .map(|message| hold::open(message, now))
            .collect();
        let received = messages.iter().map(Message::size).sum();
        self.largest.fetch_max(received, Relaxed);
        if messages.is_empty() {
            return;
        }
        let lanes = into_lanes(messages, shared.fifo);
        let heartbeat = Arc::new(Heartbeat::start(shared, lanes.iter().flatten()));
        let lanes = lanes.into_iter().map(|messages| {
            let permits = room.permits.split(messages.len());
            let bytes = messages.iter().map(|message| message.size()).sum();
            Lane {
                messages,
                heartbeat: Arc::clone(&heartbeat),
                _room: (permits, self.budget.hold(bytes)),
                _token: self.lanes.token(),
            }
        });
        self.workers.handle(shared, lanes);
    }
}

fn into_lanes(messages: Vec<Message>, fifo: bool) -> Vec<VecDeque<Arc<Message>>> {
    let mut lanes: Vec<VecDeque<Arc<Message>>> = Vec::with_capacity(messages.len());
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
