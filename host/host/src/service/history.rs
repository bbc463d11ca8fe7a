//! Follows what the queues do, for the charts of the page.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::admin::{AdminQueue, Interface, Reading, Swap};
use crate::consumer::Stats;

/// How often the counts are read.
const PACE: Duration = Duration::from_secs(5);

/// Reads the counts of all queues until the set is dropped.
pub(super) fn follow(interface: &Arc<Interface>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let interface = Arc::clone(interface);
    tasks.spawn(async move {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for queue in interface.queues().into_iter().flatten() {
                let status = queue.policy.status();
                let version = Swap {
                    at: status.since,
                    queue: queue.name.clone(),
                    to: status.title,
                };
                interface.history().read(clock::now(), read(queue), version);
            }
        }
    });
    tasks
}

fn read(queue: &AdminQueue) -> Reading {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let waiting = queue.waiting.as_ref().map(|it| it.count());
    let serving = queue.serving();
    let stats = queue.stats.as_deref();
    let count = |of: fn(&Stats) -> u64| stats.map_or(0, of);
    Reading {
        succeeded: count(|it| it.succeeded.get()),
        retried: count(|it| it.retried.get()),
        dead_lettered: count(|it| it.dead_lettered.get()),
        discarded: count(|it| it.discarded.get()),
        waiting,
        in_flight: serving.map(|it| wide(it.in_flight)),
        visible: stats.and_then(|it| it.depths.visible()),
        dead_letters: stats.and_then(|it| it.depths.dead_letters()),
    }
}
