//! The hosts: each a real consumer, started, stopped and killed as the plan says.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::breaker::BreakerSettings;
use backstop_core::decision::Bounds;
use backstop_core::lock::lock;
use backstop_decider::Decider;
use backstop_handlers::Handler;
use backstop_host::admin::{AdminQueue, Interface};
use backstop_host::config::{BreakerOptions, EachOptions, InCommon};
use backstop_host::consumer::{Consumer, Options, check};
use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, LocalQueue, Queue, VisibilityTimeout};
use backstop_settle::hold::HoldMode;
use backstop_versions::{LivePolicy, Reload};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::history::Event;
use super::link::{Identity, Link};
use super::plan::{Kept, TENANT, Waits};
use super::planted::{Planted, spoilt, spoilt_worker};
use super::policies::{PlanPolicy, digest};
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
    pub(crate) policy: PlanPolicy,
    pub(crate) hosts: Mutex<u64>,
    /// For all files of this simulation.
    pub(crate) folder: PathBuf,
}

/// A host that runs.
pub(crate) struct Host {
    pub(crate) identity: Identity,
    /// What operators reach.
    interface: Arc<Interface>,
    policy: Arc<LivePolicy>,
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
        let is_greedy = self.world.planted == Some(Planted::TakesTooMany);
        Options {
            max_in_flight: if is_greedy { 100 } else { plan.most },
            visibility_timeout: Some(VisibilityTimeout::from_seconds(plan.visibility)),
            hold: match plan.waits {
                Waits::Invisible => HoldMode::Visibility,
                Waits::SentAgain => HoldMode::Resend,
                Waits::Auto => HoldMode::Auto,
            },
            grace: GRACE,
            breaker: self.breaker(),
            limit_each: self.limits(),
            ..Options::default()
        }
    }

    /// The breaker of the queue, as a faulty host may have it.
    fn breaker(&self) -> Option<BreakerOptions> {
        let planned = self.world.plan.breaker?;
        let (mut minimum, mut after) = (planned.minimum, planned.after);
        let mut pauses = (planned.first_pause(), planned.longest_pause);
        match self.world.planted {
            Some(Planted::HasNoBreaker) => return None,
            Some(Planted::OpensAtOnce) => (minimum, after) = (1, Duration::ZERO),
            Some(Planted::ProbesTooSoon) => pauses = (400, 400),
            _ => {}
        }
        let by = if planned.by_tenant {
            InCommon::Attribute(TENANT.to_owned())
        } else {
            InCommon::Queue
        };
        let settings = BreakerSettings::default()
            .minimum(minimum)
            .shortest_outage(after)
            .pauses(Backoff::milliseconds(pauses.0, pauses.1))
            .most(u32::try_from(self.world.plan.most).unwrap_or(u32::MAX));
        Some(BreakerOptions { by, settings })
    }

    /// The limits of each tenant, as a faulty host may have them.
    fn limits(&self) -> Option<EachOptions> {
        let planned = self.world.plan.limits?;
        let is_forgotten = |planted| self.world.planted == Some(planted);
        let rate = planned.rate.map(|rate| rate.parse().unwrap());
        Some(EachOptions {
            by: InCommon::Attribute(TENANT.to_owned()),
            rate: rate.filter(|_| !is_forgotten(Planted::ForgetsRates)),
            max_in_flight: planned
                .most
                .filter(|_| !is_forgotten(Planted::ForgetsLimits)),
        })
    }

    /// The number of the next host or operator.
    pub(crate) fn next_id(&self) -> u64 {
        let mut hosts = lock(&self.hosts);
        *hosts += 1;
        *hosts
    }

    /// Where a host keeps what outlives it.
    fn kept(&self, slot: usize) -> Option<usize> {
        match self.world.plan.kept {
            Kept::Nowhere => None,
            Kept::Apart => Some(slot),
            Kept::Together => Some(0),
        }
    }

    /// Starts a host in a slot.
    pub(crate) async fn start(&self, slot: usize) -> Host {
        let id = self.next_id();
        let identity = Identity::new(id, slot, &self.world);
        let world = &self.world;
        let handler: Arc<dyn Handler> = Arc::new(Worker(identity.clone()));
        let records = Records(identity.clone());
        let policy = self.policy.load();
        let version = world.found_version(digest(&policy));
        let decider = Decider::new("orders", Arc::clone(&policy), self.bounds())
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
        let link = |queue: &Arc<LocalQueue>, dead| {
            let link = Link {
                host: identity.clone(),
                queue: Arc::clone(queue),
                dead,
                of_operator: false,
            };
            Arc::new(link)
        };
        let queue = link(&self.queue, false);
        ready.description = queue.described().await;
        let described = ready.description.in_flight;
        ready.queue = spoilt(world.planted, queue, false);
        if world.planted == Some(Planted::ForgetsRetention) {
            ready.description.retention = backstop_core::failure::Milliseconds(14 * 86_400_000);
        }
        if world.plan.keys {
            ready.envelope_keys = Some(EnvelopeKeys::of_this_process([7; 32]));
        }
        let dead_letters = link(&self.dead_letters, true);
        let there = dead_letters.described().await;
        let dead_letters = spoilt(world.planted, dead_letters, true);
        ready.dead_letters = Some((dead_letters, there));
        let handler = spoilt_worker(world.planted, handler);
        let folder = self.kept(slot);
        let path = folder.map(|folder| {
            let forgets = world.planted == Some(Planted::ForgetsWhatItKept);
            let folder = if forgets {
                id.to_string()
            } else {
                format!("kept-{folder}")
            };
            self.folder.join(folder)
        });
        let consumer = Consumer::new("orders", ready, handler, decider, options)
            .with_folder(path)
            .in_place();
        let interface = Interface::of(vec![AdminQueue::of("orders", &consumer)]);
        let stop = CancellationToken::new();
        world.happened(Event::Started {
            host: id,
            slot,
            folder,
            version,
        });
        let in_flight = described.unwrap_or_default();
        world.happened(Event::Counted {
            host: id,
            in_flight,
        });
        let (stopped, world) = (stop.clone(), Arc::clone(world));
        let running = tokio::spawn(async move {
            consumer.run(stopped).await;
            world.happened(Event::Ended { host: id });
        });
        Host {
            identity,
            interface,
            policy,
            stop,
            running,
        }
    }
}

/// What operators reach of a host.
#[derive(Clone)]
pub(crate) struct Operated {
    pub(crate) identity: Identity,
    interface: Arc<Interface>,
    policy: Arc<LivePolicy>,
}

impl Operated {
    /// What the host answers at a path of its admin interface. A host that is frozen or dead does not.
    pub(crate) async fn answer(&self, path: &str, body: Value) -> Value {
        self.identity.lives().await;
        let answer = self.interface.answer(path, Some(&body)).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Looks for a new version of its policy. Returns whether there is one.
    pub(crate) async fn reload(&self) -> bool {
        self.identity.lives().await;
        if self.identity.world().planted == Some(Planted::KeepsOldVersions) {
            return true;
        }
        match self.policy.reload() {
            Reload::Swapped { .. } => true,
            Reload::Unchanged => false,
            other => panic!("{other:?}"),
        }
    }

    /// What an operator's command does. Returns whether there was a version before.
    pub(crate) async fn roll_back(&self) -> bool {
        self.identity.lives().await;
        let result = self.policy.roll_back("rolled back by the operator");
        result.is_ok()
    }

    /// The digest of what it decides by.
    pub(crate) fn digest(&self) -> String {
        digest(&self.policy)
    }
}

impl Host {
    pub(crate) fn operated(&self) -> Operated {
        Operated {
            identity: self.identity.clone(),
            interface: Arc::clone(&self.interface),
            policy: Arc::clone(&self.policy),
        }
    }

    /// Ends it between two awaits. Its tasks that wait for others do so for ever; the files that it had locked are free.
    pub(crate) fn kill(self) {
        let host = self.identity.id;
        self.identity.kill();
        self.running.abort();
        self.stop.cancel();
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
