//! The gauges of the queues that are set when they are read: what is in hand, what waits, and what a group of a FIFO queue holds up.

use std::sync::Arc;

use metrics::Gauge;

use crate::consumer::{Consumer, Controls, Stats};
use crate::policy::LivePolicy;
use crate::telemetry;
use crate::waiting::{Tally, WITHIN, Waiting};

/// One queue.
pub(super) struct QueueGauges {
    metrics: telemetry::Queue,
    waiting: Arc<Waiting>,
    controls: Arc<Controls>,
    stats: Arc<Stats>,
    policy: Arc<LivePolicy>,
    in_flight: Gauge,
    limit: Gauge,
    not_remembered: Gauge,
    oldest: Gauge,
    next_due: Gauge,
    due: [Gauge; WITHIN.len()],
    blocked_groups: Gauge,
    blocked_messages: Gauge,
}

impl QueueGauges {
    /// The gauges of the queue with this name.
    pub(super) fn of((name, consumer): &(String, Consumer)) -> Self {
        let metrics = telemetry::Queue::named(name);
        Self {
            waiting: consumer.waiting(),
            controls: consumer.controls(),
            stats: consumer.stats(),
            policy: Arc::clone(consumer.decider().policy()),
            in_flight: metrics.in_flight(),
            limit: metrics.in_flight_limit(),
            not_remembered: metrics.waiting_not_remembered(),
            oldest: metrics.waiting_oldest(),
            next_due: metrics.waiting_next_due(),
            due: WITHIN.map(|(name, _)| metrics.waiting_due(name)),
            blocked_groups: metrics.blocked_groups(),
            blocked_messages: metrics.blocked_messages(),
            metrics,
        }
    }

    /// Sets the gauges to the current state.
    pub(super) fn update(&self) {
        let (in_flight, limit) = self.controls.in_flight();
        self.in_flight.set(number(in_flight as u64));
        self.limit.set(number(limit as u64));
        let digests = self.policy.current().digests();
        let digests: Vec<_> = digests.iter().map(ToString::to_string).collect();
        self.stats.letters.version(&digests.join(","));
        self.waits(&self.waiting.tally(self.stats.letters.classes()));
    }

    fn waits(&self, tally: &Tally) {
        for (class, [visibility, resend]) in &tally.classes {
            for (hold, count) in [("visibility", visibility), ("resend", resend)] {
                let gauge = self.metrics.waiting(class.clone(), hold);
                gauge.set(number(*count));
            }
        }
        self.not_remembered.set(number(tally.not_remembered));
        self.oldest.set(tally.oldest.unwrap_or_default());
        self.next_due.set(tally.next_due.unwrap_or_default());
        for (gauge, count) in self.due.iter().zip(tally.due) {
            gauge.set(number(count));
        }
        self.blocked_groups.set(number(tally.blocked_groups));
        let behind = self.stats.behind(|id| self.waiting.has(id));
        self.blocked_messages.set(number(behind as u64));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of messages")]
fn number(count: u64) -> f64 {
    count as f64
}
