//! Tasks that handle lanes, each one after another. A new task for each lane would be among the largest costs of a message that succeeds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::budget::Room;
use super::heartbeat::Heartbeat;
use super::{Shared, lane};

/// The most workers that wait for a lane.
const MOST_IDLE: usize = 256;

/// The messages of a lane, and what is held until they are settled.
pub(super) struct Lane {
    pub(super) messages: lane::Messages,
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(super) room: Room,
}

/// The workers of a consumer. Those that wait end when this is dropped, the others after their lane.
pub(super) struct Workers(Arc<Idle>);

/// The workers that wait for a lane; `None` once the pollers have ended. Those that came last go first, with their memory still in the processor's cache.
struct Idle(Mutex<Option<Vec<Worker>>>);

/// Gives a lane to one worker.
type Worker = oneshot::Sender<Lane>;

impl Workers {
    pub(super) fn new() -> Self {
        Self(Arc::new(Idle(Mutex::new(Some(Vec::new())))))
    }

    /// Handles these lanes at the same time: by idle workers, and by new ones if these are too few.
    pub(super) fn handle(&self, shared: &Arc<Shared>, lanes: impl ExactSizeIterator<Item = Lane>) {
        let mut idle = self.0.take(lanes.len()).into_iter();
        for lane in lanes {
            let refused = match idle.next() {
                Some(worker) => worker.send(lane).err(),
                None => Some(lane),
            };
            if let Some(lane) = refused {
                tokio::spawn(work(Arc::clone(&self.0), Arc::clone(shared), lane));
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.workers().take();
    }
}

impl Idle {
    fn workers(&self) -> MutexGuard<'_, Option<Vec<Worker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to this many workers.
    fn take(&self, most: usize) -> Vec<Worker> {
        let mut workers = self.workers();
        let taken = workers.as_mut().map(|workers| {
            let rest = workers.len().saturating_sub(most);
            workers.split_off(rest)
        });
        taken.unwrap_or_default()
    }

    /// The next lane; `None` if enough workers wait already, or the pollers have ended.
    async fn next(&self) -> Option<Lane> {
        let given = {
            let mut workers = self.workers();
            let workers = workers.as_mut().filter(|it| it.len() < MOST_IDLE)?;
            let (worker, given) = oneshot::channel();
            workers.push(worker);
            given
        };
        given.await.ok()
    }
}

async fn work(idle: Arc<Idle>, shared: Arc<Shared>, first: Lane) {
    let mut next = Some(first);
    while let Some(lane) = next {
        lane::run(&shared, lane.messages, &lane.heartbeat).await;
        drop((lane.heartbeat, lane.room));
        next = idle.next().await;
    }
}
