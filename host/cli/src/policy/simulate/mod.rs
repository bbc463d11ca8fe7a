//! `backstop policy simulate`: when a policy retries ([`timetable`]), and how policies cope with contention ([`contention`]).

mod args;
mod configured_policy;
mod contention;
mod time_bar;
mod timetable;

use crate::error::{Exit, Result};

pub(super) use args::Args;

pub(super) fn run(args: &Args) -> Result<()> {
    if args.contention {
        return contention::run(args);
    }
    match args.policies.as_slice() {
        [policy] => timetable::run(args, policy),
        several => Err(Exit::Usage.because(format!(
            "a timetable needs exactly one policy, not {}: name one, or compare them with --contention",
            several.len()
        ))),
    }
}
