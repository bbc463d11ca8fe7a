//! Tasks that handle lanes, each one after another. A new task for each lane would be among the largest costs of a message that succeeds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::budget::Share;
use super::heartbeat::Heartbeat;
use super::{Shared, lane};
use crate::queue::Message;

/// The most workers that wait for a lane.
const MOST_IDLE: usize = 256;

/// The messages of a lane, and what is held until they are settled.
pub(super) struct Lane {
    pub(super) messages: VecDeque<Arc<Message>>,
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(super) _room: (Option<OwnedSemaphorePermit>, Share),
    /// The consumer runs until this is dropped.
    pub(super) _token: TaskTrackerToken,
}

/// The workers of a consumer. Those that wait end when this is dropped, the others after their lane.
pub(super) struct Workers(Arc<Waiting>);

struct Waiting {
    /// As many permits as there are lanes for idle workers.
    ready: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each is for one worker that was idle.
    lanes: VecDeque<Lane>,
    idle: usize,
}

impl Workers {
    pub(super) fn new() -> Self {
        Self(Arc::new(Waiting {
            ready: Semaphore::new(0),
            state: Mutex::default(),
        }))
    }

    /// Handles these lanes at the same time: by idle workers, and by new ones if these are too few.
    pub(super) fn handle(&self, shared: &Arc<Shared>, lanes: impl IntoIterator<Item = Lane>) {
        let mut for_idle = 0;
        {
            let mut state = self.0.state();
            for lane in lanes {
                if state.idle == 0 {
                    let (waiting, shared) = (Arc::clone(&self.0), Arc::clone(shared));
                    tokio::spawn(work(waiting, shared, lane));
                } else {
                    state.idle -= 1;
                    state.lanes.push_back(lane);
                    for_idle += 1;
                }
            }
        }
        self.0.ready.add_permits(for_idle);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.ready.close();
    }
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next lane; `None` if there are enough idle workers, or the consumer has ended.
    async fn next(&self) -> Option<Lane> {
        {
            let mut state = self.state();
            if state.idle == MOST_IDLE {
                return None;
            }
            state.idle += 1;
        }
        if let Ok(ready) = self.ready.acquire().await {
            ready.forget();
        }
        // At the end of the consumer, lanes that are left are handled, too.
        self.state().lanes.pop_front()
    }
}

async fn work(waiting: Arc<Waiting>, shared: Arc<Shared>, first: Lane) {
    let mut next = Some(first);
    while let Some(mut lane) = next.take() {
        let messages = std::mem::take(&mut lane.messages);
        lane::run(&shared, messages, &lane.heartbeat).await;
        drop(lane);
        next = waiting.next().await;
    }
}
