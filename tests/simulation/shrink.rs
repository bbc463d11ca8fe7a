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
    add(plan.breaker.is_some(), &|it| it.breaker = None);
    add(plan.limits.is_some(), &|it| it.limits = None);
    all.into_iter()
}

/// Removes what is not needed, as long as `fails` holds of the rest.
pub(crate) fn shrunk(plan: Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    smallest(plan, smaller, fails)
}

/// Takes a smaller plan as long as one fails, too.
pub(crate) fn smallest<P>(
    mut plan: P,
    smaller: impl Fn(&P) -> Vec<P>,
    fails: impl Fn(&P) -> bool,
) -> P {
    while let Some(smaller) = smaller(&plan).into_iter().find(|it| fails(it)) {
        plan = smaller;
    }
    plan
}

/// The lists with one element less, after their halves.
pub(crate) fn without_one<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let half = all.len() / 2;
    let halves = [&all[half..], &all[..half]];
    let halves = halves.into_iter().filter(|_| half > 1).map(<[T]>::to_vec);
    let fewer = (0..all.len()).map(|at| {
        let mut without = all.to_vec();
        without.remove(at);
        without
    });
    halves.chain(fewer).collect()
}

fn smaller(plan: &Plan) -> Vec<Plan> {
    let disturbances = without_one(&plan.disturbances).into_iter();
    let disturbances = disturbances.map(|disturbances| Plan {
        disturbances,
        ..plan.clone()
    });
    let messages = without_one(&plan.messages).into_iter();
    let messages = messages.filter(|it| !it.is_empty()).map(|messages| Plan {
        messages,
        ..plan.clone()
    });
    disturbances.chain(simpler(plan)).chain(messages).collect()
}
