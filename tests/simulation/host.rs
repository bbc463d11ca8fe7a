//! The hosts: each a real consumer, started, stopped and killed as the plan says.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::lock::lock;
use backstop_decider::Decider;
use backstop_handlers::Handler;
use backstop_host::consumer::{Consumer, Options, check};
use backstop_queue::{Connections, LocalQueue, Queue, VisibilityTimeout};
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::Waiting;
use backstop_versions::LivePolicy;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::history::Event;
use super::link::{Identity, Link};
use super::planted::{spoilt, spoilt_worker};
use super::worker::{Records, Worker};
use super::world::World;

/// The time for messages in hand after a stop.
pub(crate) const GRACE: Duration = Duration::from_secs(25);

/// What the hosts are made of.
pub(crate) struct Setting {
    pub(crate) world: Arc<World>,
    pub(crate) connections: Connections,
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) dead_letters: Arc<LocalQueue>,
    pub(crate) policy: Arc<LivePolicy>,
    pub(crate) hosts: Mutex<u64>,
}

/// A host that runs.
pub(crate) struct Host {
    pub(crate) identity: Identity,
    pub(crate) waiting: Arc<Waiting>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Setting {
    fn bounds(&self) -> Bounds {
        Bounds {
            max_attempts: NonZeroU32::new(self.world.plan.max_attempts),
            ..Bounds::default()
        }
    }

    fn options(&self) -> Options {
        let plan = &self.world.plan;
        Options {
            max_in_flight: 20,
            visibility_timeout: Some(VisibilityTimeout::from_seconds(plan.visibility)),
            hold: if plan.resend {
                HoldMode::Resend
            } else {
                HoldMode::Visibility
            },
            grace: GRACE,
            ..Options::default()
        }
    }

    /// Starts a host in a slot.
    pub(crate) async fn start(&self, slot: usize) -> Host {
        let id = {
            let mut hosts = lock(&self.hosts);
            *hosts += 1;
            *hosts
        };
        let identity = Identity::new(id, slot, &self.world);
        let world = &self.world;
        let handler: Arc<dyn Handler> = Arc::new(Worker(identity.clone()));
        let records = Records(identity.clone());
        let decider = Decider::new("orders", Arc::clone(&self.policy), self.bounds())
            .in_place()
            .observed_by(Arc::new(records));
        let options = self.options();
        let (mut ready, _) = check(
            &self.connections,
            self.queue.url(),
            Some(self.dead_letters.url()),
            handler.as_ref(),
            &decider,
            &self.bounds(),
            &options,
        )
        .await
        .unwrap();
        let link = |queue: &Arc<LocalQueue>, dead| Link {
            host: identity.clone(),
            queue: Arc::clone(queue),
            dead,
        };
        let queue = Arc::new(link(&self.queue, false));
        ready.description = queue.describe().await.unwrap();
        ready.queue = spoilt(world.planted, queue, false);
        let dead_letters = Arc::new(link(&self.dead_letters, true));
        let there = dead_letters.describe().await.unwrap();
        let dead_letters = spoilt(world.planted, dead_letters, true);
        ready.dead_letters = Some((dead_letters, there));
        let handler = spoilt_worker(world.planted, handler);
        let consumer = Consumer::new("orders", ready, handler, decider, options);
        let waiting = consumer.waiting();
        let stop = CancellationToken::new();
        world.happened(Event::Started { host: id });
        let (stopped, world) = (stop.clone(), Arc::clone(world));
        let running = tokio::spawn(async move {
            consumer.run(stopped).await;
            world.happened(Event::Ended { host: id });
        });
        Host {
            identity,
            waiting,
            stop,
            running,
        }
    }
}

impl Host {
    pub(crate) fn kill(self) {
        let host = self.identity.id;
        self.identity.kill();
        self.identity.world().happened(Event::Killed { host });
    }

    /// Stops it. What is under way goes on in the background; a host that takes longer than it may has never ended.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        let host = self.identity.id;
        self.identity.world().happened(Event::Stopping { host });
        self.stop.cancel();
        tokio::spawn(async move {
            // Frozen, it can't end; requests may be late.
            let longest = GRACE + Duration::from_secs(200);
            if tokio::time::timeout(longest, self.running).await.is_err() {
                let world = self.identity.world();
                world.never_ended(format!(
                    "host {host} has not ended {longest:?} after its stop"
                ));
            }
        })
    }
}
