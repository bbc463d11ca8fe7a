//! How often a shadow agreed with the live policy, and where it differed.

use metrics::Histogram;
use serde::Serialize;

use crate::record::{Aspect, ShadowOutcome};
use crate::telemetry;
use backstop_queue::Count;

/// The counts of one shadow, readable while it runs.
#[derive(Debug)]
pub struct Counts {
    agreed: Count,
    differed: Count,
    class: Count,
    verdict: Count,
    delay: Count,
    reason: Count,
    outage: Count,
    broken: Count,
    skipped: Count,
    took: Histogram,
}

/// The counts of one shadow at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tally {
    /// Decisions where the shadow would have done the same.
    pub agreed: u64,
    /// Decisions where it would not.
    pub differed: u64,
    /// Decisions with a different class.
    pub differed_in_class: u64,
    /// Decisions with a different verdict.
    pub differed_in_verdict: u64,
    /// Decisions with a different delay.
    pub differed_in_delay: u64,
    /// Decisions with a different reason. If nothing else differs they count as `agreed`.
    pub differed_in_reason: u64,
    /// Decisions with a different outage.
    pub differed_in_outage: u64,
    /// Decisions where the shadow broke.
    pub broken: u64,
    /// Decisions for which it was not evaluated, or answered too late.
    pub skipped: u64,
}

impl Counts {
    /// The counts of the shadow of this queue, exported as metrics too.
    pub(super) fn of(queue: &str) -> Self {
        let queue = telemetry::Queue::named(queue);
        let result = |name| Count::exported_as(queue.comparisons(name));
        let differs = |name| Count::exported_as(queue.differences(name));
        Self {
            agreed: result("agreed"),
            differed: result("differed"),
            broken: result("broken"),
            skipped: result("skipped"),
            class: differs("class"),
            verdict: differs("verdict"),
            delay: differs("delay"),
            reason: differs("reason"),
            outage: differs("outage"),
            took: queue.shadow_seconds(),
        }
    }

    pub(super) fn add(&self, outcome: &ShadowOutcome) {
        let took_us = match outcome {
            ShadowOutcome::Skipped { .. } => {
                self.skipped.add(1);
                return;
            }
            ShadowOutcome::Broken { took_us, .. } => {
                self.broken.add(1);
                *took_us
            }
            ShadowOutcome::Compared {
                agrees,
                differs,
                took_us,
                ..
            } => {
                let result = if *agrees {
                    &self.agreed
                } else {
                    &self.differed
                };
                result.add(1);
                for aspect in differs {
                    self.differences(*aspect).add(1);
                }
                *took_us
            }
        };
        self.took.record(std::time::Duration::from_micros(took_us));
    }

    fn differences(&self, aspect: Aspect) -> &Count {
        match aspect {
            Aspect::Class => &self.class,
            Aspect::Verdict => &self.verdict,
            Aspect::Delay => &self.delay,
            Aspect::Reason => &self.reason,
            Aspect::Outage => &self.outage,
        }
    }

    /// The counts now.
    pub fn tally(&self) -> Tally {
        Tally {
            agreed: self.agreed.get(),
            differed: self.differed.get(),
            differed_in_class: self.class.get(),
            differed_in_verdict: self.verdict.get(),
            differed_in_delay: self.delay.get(),
            differed_in_reason: self.reason.get(),
            differed_in_outage: self.outage.get(),
            broken: self.broken.get(),
            skipped: self.skipped.get(),
        }
    }
}
