//! The limits of each tenant: how many attempts begin in a time, and how many are made at once.

use std::time::Duration;

use backstop_core::rate::Rate;

use super::{Checker, Rule};
use crate::plan::tenant_of;

/// What is known of the attempts of one tenant at one host.
#[derive(Debug, Default)]
pub(super) struct Share {
    under_way: usize,
    /// What is saved up, of one attempt each, and since when that is known. At first, all that can be.
    saved: Option<(f64, Duration)>,
}

impl Share {
    /// Takes one attempt of what is saved up. Returns what is left.
    fn takes(&mut self, at: Duration, rate: Rate) -> f64 {
        let interval = rate.interval().as_secs_f64();
        let most = (1.0 / interval).floor().max(1.0);
        let saved = self.saved.map_or(most, |(saved, since)| {
            (saved + (at - since).as_secs_f64() / interval).min(most)
        });
        self.saved = Some((saved - 1.0, at));
        saved - 1.0
    }
}

impl Checker<'_> {
    /// An attempt begins: its tenant must have a turn.
    pub(super) fn has_turn(&mut self, at: Duration, host: u64, number: u32) {
        let Some(limits) = self.plan.limits else {
            return;
        };
        let tenant = tenant_of(number);
        let known = self.host(host);
        let unsure = known.unsure;
        let share = known.each.entry(tenant).or_default();
        share.under_way += 1;
        let under_way = share.under_way;
        let rate: Option<Rate> = limits.rate.map(|rate| rate.parse().unwrap());
        let left = rate.map(|rate| share.takes(at, rate));
        if let Some(most) = limits.most {
            self.rule(Rule::WithinLimitsOfEach, false, under_way <= most, at, || {
                format!("host {host} makes {under_way} attempts of tenant {tenant} at once with message {number}, and {most} is the most")
            });
        }
        if let Some(left) = left {
            let holds = left > -0.01;
            self.rule(Rule::WithinRateOfEach, unsure, holds, at, || {
                format!("host {host} attempts message {number} of tenant {tenant} sooner than its rate allows: {left:.3} are saved up")
            });
        }
    }

    /// An attempt ends.
    pub(super) fn ends_turn(&mut self, host: u64, number: u32) {
        let share = self.host(host).each.get_mut(&tenant_of(number));
        if let Some(share) = share {
            share.under_way = share.under_way.saturating_sub(1);
        }
    }
}
