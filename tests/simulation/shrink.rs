//! The smallest part of a plan that still shows a fault.

use super::plan::{Kept, LONG, Plan, Waits};

/// The same plan with one thing that is more usual.
fn simpler(plan: &Plan) -> impl Iterator<Item = Plan> {
    let mut all = Vec::new();
    let mut add = |is_other: bool, change: &dyn Fn(&mut Plan)| {
        if is_other {
            let mut simpler = plan.clone();
            change(&mut simpler);
            all.push(simpler);
        }
    };
    add(!plan.versions.is_empty(), &|it| it.versions.clear());
    add(plan.kept != Kept::Nowhere, &|it| it.kept = Kept::Nowhere);
    add(plan.waits != Waits::Invisible, &|it| {
        it.waits = Waits::Invisible
    });
    add(plan.retention != LONG, &|it| it.retention = LONG);
    add(plan.most_in_flight < 120_000, &|it| {
        it.most_in_flight = 120_000
    });
    add(plan.most < 20, &|it| it.most = 20);
    add(plan.ends.is_some(), &|it| it.ends = None);
    all.into_iter()
}

/// Removes what is not needed, as long as `fails` holds of the rest.
pub(crate) fn shrunk(plan: Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut plan = plan;
    loop {
        let mut smaller = Vec::new();
        for at in 0..plan.disturbances.len() {
            let mut without = plan.clone();
            without.disturbances.remove(at);
            smaller.push(without);
        }
        for simpler in simpler(&plan) {
            smaller.push(simpler);
        }
        let half = plan.messages.len() / 2;
        if half > 1 {
            for part in [0..half, half..plan.messages.len()] {
                let mut without = plan.clone();
                without.messages.drain(part);
                smaller.push(without);
            }
        }
        if plan.messages.len() > 1 {
            for at in 0..plan.messages.len() {
                let mut without = plan.clone();
                without.messages.remove(at);
                smaller.push(without);
            }
        }
        match smaller.into_iter().find(|smaller| fails(smaller)) {
            Some(smaller) => plan = smaller,
            None => return plan,
        }
    }
}
