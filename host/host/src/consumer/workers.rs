//! Tasks that handle lanes, each one after another. A new task for each lane would be among the largest costs of a message that succeeds.

use std::sync::{Arc, Mutex, MutexGuard};

use backstop_core::lock::lock;
use tokio::sync::Notify;

use super::budget::Room;
use super::heartbeat::Heartbeat;
use super::{Shared, lane};
use crate::queue::Caller;

/// The most workers that wait for a lane.
const MOST_IDLE: usize = 256;

/// The messages of a lane, and what is held until they are settled.
pub(super) struct Lane {
    pub(super) messages: lane::Messages,
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(super) room: Room,
    /// On a FIFO queue.
    pub(super) caller: Option<Caller>,
}

/// The workers of a consumer. Those that wait end when this is dropped, the others after their lane.
pub(super) struct Workers(Arc<Idle>);

/// The workers that wait for a lane; `None` once the pollers have ended. Those that came last go first, with their memory still in the processor's cache.
struct Idle(Mutex<Option<Vec<Arc<Inbox>>>>);

/// Where one worker finds its next lane. It is used again and again: a channel for each lane would be an allocation for each message.
#[derive(Default)]
struct Inbox {
    lane: Mutex<Option<Lane>>,
    /// There is a lane, or there will be none.
    changed: Notify,
}

impl Workers {
    pub(super) fn new() -> Self {
        Self(Arc::new(Idle(Mutex::new(Some(Vec::new())))))
    }

    /// Handles these lanes at the same time: by idle workers, and by new ones if these are too few.
    pub(super) fn handle(&self, shared: &Arc<Shared>, lanes: impl ExactSizeIterator<Item = Lane>) {
        let mut idle = self.0.take(lanes.len()).into_iter();
        for lane in lanes {
            match idle.next() {
                Some(inbox) => inbox.give(lane),
                None => {
                    tokio::spawn(work(Arc::clone(&self.0), Arc::clone(shared), lane));
                }
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let idle = self.0.inboxes().take();
        for inbox in idle.into_iter().flatten() {
            inbox.changed.notify_one();
        }
    }
}

impl Idle {
    fn inboxes(&self) -> MutexGuard<'_, Option<Vec<Arc<Inbox>>>> {
        lock(&self.0)
    }

    /// The inboxes of up to this many workers.
    fn take(&self, most: usize) -> Vec<Arc<Inbox>> {
        let mut inboxes = self.inboxes();
        let taken = inboxes.as_mut().map(|inboxes| {
            let rest = inboxes.len().saturating_sub(most);
            inboxes.split_off(rest)
        });
        taken.unwrap_or_default()
    }

    /// The next lane of this worker; `None` if enough wait already, or the pollers have ended.
    async fn next(&self, inbox: &Arc<Inbox>) -> Option<Lane> {
        {
            let mut inboxes = self.inboxes();
            let inboxes = inboxes.as_mut().filter(|it| it.len() < MOST_IDLE)?;
            inboxes.push(Arc::clone(inbox));
        }
        inbox.changed.notified().await;
        inbox.lane().take()
    }
}

impl Inbox {
    fn lane(&self) -> MutexGuard<'_, Option<Lane>> {
        lock(&self.lane)
    }

    fn give(&self, lane: Lane) {
        *self.lane() = Some(lane);
        self.changed.notify_one();
    }
}

async fn work(idle: Arc<Idle>, shared: Arc<Shared>, first: Lane) {
    let inbox = Arc::<Inbox>::default();
    let mut next = Some(first);
    while let Some(lane) = next {
        lane::run(&shared, lane.messages, &lane.heartbeat).await;
        drop((lane.heartbeat, lane.room, lane.caller));
        next = idle.next(&inbox).await;
    }
}
