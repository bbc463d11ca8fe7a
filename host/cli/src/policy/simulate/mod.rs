//! `backstop policy simulate`: when a policy retries ([`timetable`]), how policies cope with contention ([`contention`]), and what an outage costs ([`outage`]).

mod args;
mod configured_policy;
mod contention;
mod outage;
mod time_bar;
mod timetable;

use crate::error::{Exit, Result};

pub(super) use args::Args;

pub(super) fn run(args: &Args) -> Result<()> {
    if args.contention {
        return contention::run(args);
    }
    match args.policies.as_slice() {
        [policy] => match args.outage {
            Some(outage) => outage::run(args, policy, outage),
            None => timetable::run(args, policy),
        },
        several => Err(Exit::Usage.because(format!(
            "a timetable or an outage needs exactly one policy, not {}: name one, or compare them with --contention",
            several.len()
        ))),
    }
}
