//! The gauges of the policies: which versions are active, and whether their sources are reachable; and what the process says of itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;
use backstop_core::lost;
use metrics::Counter;

use crate::policy::{LivePolicy, PartName};
use crate::telemetry;

/// A policy of a queue, and its role.
#[derive(Debug, Clone)]
pub(super) struct PolicySlot {
    /// The queue's name.
    pub(super) queue: String,
    /// `live` or `shadow`.
    pub(super) role: &'static str,
    /// The policy.
    pub(super) policy: Arc<LivePolicy>,
}

/// Updates the gauges of the policies each time that the metrics are read, so they are correct whatever activated a version.
#[derive(Debug)]
pub(super) struct PolicyGauges {
    slots: Vec<PolicySlot>,
    /// Every version that was active since the start, by the slot's index, the part's name and its digest; `true` if it is active now.
    seen: Mutex<BTreeMap<(usize, String, String), bool>>,
}

impl PolicyGauges {
    /// The gauges of these policies. Their counters are created here.
    pub(super) fn new(slots: Vec<PolicySlot>) -> Self {
        for PolicySlot { policy, .. } in &slots {
            telemetry::create_policy_counters(&policy.spec().title());
        }
        Self {
            slots,
            seen: Mutex::default(),
        }
    }

    /// Sets the gauges to the current state.
    pub(super) fn update(&self) {
        let mut seen = lock(&self.seen);
        seen.values_mut().for_each(|is_active| *is_active = false);
        for (index, slot) in self.slots.iter().enumerate() {
            telemetry::source_unreachable(slot.policy.spec().title())
                .set(u8::from(slot.policy.is_unreachable()));
            for PartName { name, digest, .. } in slot.policy.current().parts() {
                seen.insert((index, name, digest.short()), true);
            }
        }
        for ((index, name, digest), is_active) in seen.iter() {
            if let Some(PolicySlot { queue, role, .. }) = self.slots.get(*index) {
                telemetry::policy_info(queue.clone(), *role, name.clone(), digest.clone())
                    .set(u8::from(*is_active));
            }
        }
    }
}

/// The metrics of the process: its version, and what it could not write.
pub(super) struct HostMetrics {
    records: Counter,
    log_lines: Counter,
}

impl HostMetrics {
    /// The metrics of a host of this version.
    pub(super) fn of(version: &'static str) -> Self {
        telemetry::build_info(version).set(1);
        Self {
            records: telemetry::records_dropped(),
            log_lines: telemetry::log_lines_dropped(),
        }
    }

    /// Sets the metrics to the current state.
    pub(super) fn update(&self) {
        self.records.absolute(lost::RECORDS.get());
        self.log_lines.absolute(lost::LOG_LINES.get());
    }
}
