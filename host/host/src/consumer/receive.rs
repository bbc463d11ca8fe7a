//! Receives messages with long polls, several at once while the queue is busy, and gives each message to a worker as a lane.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use metrics::Gauge;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::budget::{Budget, Room};
use super::heartbeat::Heartbeats;
use super::lane::Messages;
use super::polling::Polling;
use super::workers::{Lane, Workers};
use super::{Shared, spans};
use crate::queue::{BATCH_ENTRIES, Message, QueueError, RECEIVE};
use crate::telemetry;

/// The longest poll while messages are in flight or other polls are under way. A shutdown returns messages after the last poll has ended, because the poll would receive them again.
const BUSY_POLL: Duration = Duration::from_secs(2);

/// The shortest poll.
pub(super) const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// The waits while SQS is unreachable.
const BACKOFF: Backoff = Backoff::milliseconds(200, 20_000);

/// The pollers of one queue: as many as the queue has work for.
///
/// A poll that comes back full starts another poller, as long as there is room for its messages. One that comes back with a single message, with none or with an error ends its poller, except for the last one.
pub(super) struct Pollers {
    budget: Arc<Budget>,
    /// Taken by one poller at a time while the gate limits what is in flight.
    passing: Mutex<()>,
    lanes: TaskTracker,
    workers: Workers,
    heartbeats: Arc<Heartbeats>,
    running: AtomicUsize,
    most: usize,
    /// Whether the polls succeed.
    polling: Arc<Polling>,
    /// The bytes of the largest receive so far: what a poll under way is expected to bring.
    largest: AtomicUsize,
    polls: Gauge,
    tasks: TaskTracker,
}

impl Pollers {
    /// Starts the first poller.
    pub(super) fn start(shared: &Arc<Shared>, lanes: &TaskTracker) -> Arc<Self> {
        let options = &shared.options;
        let pollers = Arc::new(Self {
            budget: Arc::clone(&shared.controls.budget),
            passing: Mutex::default(),
            lanes: lanes.clone(),
            workers: Workers::new(),
            heartbeats: Heartbeats::start(shared),
            running: AtomicUsize::new(0),
            most: options.max_polls.max(1),
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
        let longest = if is_idle {
            shared.controls.idle_poll()
        } else {
            BUSY_POLL
        };
        // A shutdown waits for the poll no longer than the grace period.
        let wait = longest.min(shared.controls.grace()).max(SHORTEST_POLL);
        let asked = room.messages();
        shared.stats.receive_requests.add(1);
        let began = spans::began();
        let poll = shared.queue.receive(asked, wait, shared.visibility);
        tokio::pin!(poll);
        let received = tokio::select! {
            biased;
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
            Ok(mut messages) => {
                self.succeeded(shared);
                if !messages.is_empty() {
                    spans::received(shared, began, &mut messages);
                }
                let received = messages.len();
                shared.controls.gave_back(asked.saturating_sub(received));
                shared
                    .stats
                    .received
                    .add(received.try_into().unwrap_or(u64::MAX));
                self.start_lanes(shared, messages, room);
                if received == BATCH_ENTRIES && self.budget.has_room(BATCH_ENTRIES) {
                    self.add(shared);
                }
                received > 1 || !self.retire()
            }
            Err(error) => {
                drop(room);
                spans::not_received(shared, began, &error);
                shared.controls.gave_back(asked);
                self.failed(shared, &error).await
            }
        };
        goes_on && !shared.stop.is_cancelled()
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
        shared.stats.requests.failed(RECEIVE, error);
        shared.settler.holds.failed(error);
        let failures = self.polling.failed();
        if failures == 1 {
            tracing::error!(queue = shared.name, %error, "can't receive messages: retrying until it works");
        }
        if self.retire() {
            return false;
        }
        tokio::select! {
            biased;
            () = sleep(BACKOFF.wait(failures, rand::random())) => true,
            () = shared.stop.cancelled() => false,
        }
    }

    /// Room for the messages of one poll, which are expected to be as large as the largest so far, once the controls, the gate and the breaker let them pass. `None` if the consumer stops.
    async fn room(&self, shared: &Shared) -> Option<Room> {
        tokio::select! {
            biased;
            room = self.passed(shared) => room,
            () = shared.stop.cancelled() => None,
        }
    }

    async fn passed(&self, shared: &Shared) -> Option<Room> {
        let (gate, controls, breaker) = (&shared.gate, &shared.controls, &shared.breaker);
        let bytes = self.largest.load(Relaxed);
        let is_open = || gate.is_open() && controls.is_free() && breaker.is_free();
        if is_open() {
            let room = self.budget.room(BATCH_ENTRIES, bytes).await?;
            // It may have closed while there was no room.
            if is_open() {
                return Some(room);
            }
        }
        let _passing = self.passing.lock().await;
        loop {
            let allowed = controls.passed().await;
            let left = gate.passed(|| self.budget.in_flight()).await;
            let polls = || {
                self.budget
                    .in_flight()
                    .saturating_sub(self.budget.in_hand())
            };
            let worthwhile = breaker.passed(polls).await;
            let most = BATCH_ENTRIES.min(left).min(allowed).min(worthwhile);
            let room = self.budget.room(most, bytes).await?;
            if !gate.is_closed() && !controls.is_paused() && !breaker.is_closed() {
                controls.took(room.messages());
                return Some(room);
            }
        }
    }

    /// Starts a lane for each message, or on a FIFO queue for each message group.
    fn start_lanes(&self, shared: &Arc<Shared>, mut messages: Vec<Message>, mut room: Room) {
        let now = shared.queue.now();
        for message in &mut messages {
            shared.settler.holds.open(message, now);
        }
        let bytes = messages.iter().map(Message::size).sum();
        self.largest.fetch_max(bytes, Relaxed);
        room.hold(bytes);
        if messages.is_empty() {
            return;
        }
        let lanes = into_lanes(messages, shared.fifo);
        let messages = || lanes.iter().flat_map(Messages::iter);
        let again = |message: &Message| shared.history.skipped(message);
        shared.receipts.received(messages(), again);
        let token = self.lanes.token();
        let heartbeat = self.heartbeats.keep(shared, messages(), token);
        let callers = shared.callers.as_ref().map(|it| it.begin(lanes.len()));
        let mut callers = callers.into_iter().flatten();
        let lanes = lanes.into_iter().map(|messages| {
            let bytes = messages.iter().map(|message| message.size()).sum();
            Lane {
                heartbeat: Arc::clone(&heartbeat),
                room: room.split(messages.iter().count(), bytes),
                caller: callers.next(),
                messages,
            }
        });
        self.workers.handle(shared, lanes);
    }
}

fn into_lanes(messages: Vec<Message>, fifo: bool) -> Vec<Messages> {
    let mut lanes: Vec<Messages> = Vec::with_capacity(messages.len());
    for message in messages.into_iter().map(Arc::new) {
        let same_group = |lane: &&mut Messages| fifo && lane.is_same_group(&message);
        match lanes.iter_mut().find(same_group) {
            Some(lane) => lane.add(message),
            None => lanes.push(Messages::of(message)),
        }
    }
    lanes
}
