//! The smallest part of a plan that still shows a fault.

use super::plan::Plan;

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
