//! The depth of the queues and of their dead-letter queues, read at a configurable pace while metrics are served.

use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::consumer::{Consumer, Stats};
use crate::queue::{Description, Queue, short_name};
use crate::telemetry;

/// Follows the depths of these queues until the set is dropped. The first ones are those that the checks of the start have read.
pub(super) fn follow(consumers: &[(String, Consumer)]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (name, consumer) in consumers {
        let metrics = telemetry::Queue::named(name);
        let (stats, own) = (consumer.stats(), Own::of(&metrics));
        let ready = consumer.ready();
        let (queue, description) = (&ready.queue, &ready.description);
        own.set(description, &stats);
        let dead_letters = ready.dead_letter_queues().map(|(queue, description)| {
            let name = short_name(&description.arn).to_owned();
            let dead = DeadLetters {
                queue: Arc::clone(queue),
                gauge: metrics.dead_letter_depth(name.clone()),
                name,
            };
            dead.set(description, &stats);
            dead
        });
        let dead_letters = dead_letters.collect();
        let depths = Depths {
            name: name.clone(),
            queue: Arc::clone(queue),
            own,
            dead_letters,
            stats,
        };
        if let Some(pace) = consumer.depth_poll() {
            tasks.spawn(depths.follow(pace));
        }
    }
    tasks
}

/// What is read of one queue.
struct Depths {
    name: String,
    queue: Arc<dyn Queue>,
    own: Own,
    dead_letters: Vec<DeadLetters>,
    stats: Arc<Stats>,
}

impl Depths {
    async fn follow(self, pace: Duration) {
        let mut ticks = interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Some(description) = self.read(&self.queue).await {
                self.own.set(&description, &self.stats);
            }
            for dead in &self.dead_letters {
                if let Some(description) = self.read(&dead.queue).await {
                    dead.set(&description, &self.stats);
                }
            }
        }
    }

    /// Nothing if the queue does not answer: the metric stays as it is, and the polls say why.
    async fn read(&self, queue: &Arc<dyn Queue>) -> Option<Description> {
        let described = queue.describe().await;
        described
            .inspect_err(|error| {
                tracing::debug!(queue = self.name, url = queue.url(), %error, "the depth of a queue can't be read");
            })
            .ok()
    }
}

/// The numbers of the queue itself.
struct Own {
    visible: Gauge,
    invisible: Gauge,
    delayed: Gauge,
}

impl Own {
    fn of(metrics: &telemetry::Queue) -> Self {
        Self {
            visible: metrics.depth("visible"),
            invisible: metrics.depth("invisible"),
            delayed: metrics.depth("delayed"),
        }
    }

    fn set(&self, description: &Description, stats: &Stats) {
        if let Some(visible) = description.visible {
            stats.depths.set_visible(wide(visible));
        }
        let Description {
            visible,
            in_flight,
            delayed,
            ..
        } = description;
        for (gauge, number) in [
            (&self.visible, visible),
            (&self.invisible, in_flight),
            (&self.delayed, delayed),
        ] {
            if let Some(number) = number {
                gauge.set(count(*number));
            }
        }
    }
}

/// A dead-letter queue.
struct DeadLetters {
    queue: Arc<dyn Queue>,
    name: String,
    gauge: Gauge,
}

impl DeadLetters {
    /// Sets the gauge to all that is in it.
    fn set(&self, description: &Description, stats: &Stats) {
        let Description {
            visible,
            in_flight,
            delayed,
            ..
        } = description;
        if visible.is_some() {
            let all = [visible, in_flight, delayed].into_iter().flatten().sum();
            self.gauge.set(count(all));
            stats.depths.set_dead_letters(&self.name, wide(all));
        }
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a number of messages")]
fn count(number: usize) -> f64 {
    number as f64
}
