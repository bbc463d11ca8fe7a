//! `--dry-run`: what a run would do, and its exit code.

use std::sync::Arc;

use backstop::queue::{Connections, Queue};
use backstop_core::text::{chain, one_line};
use backstop_dead_letters::redrive::{Plan, Rehearsal, rehearse};
use backstop_dead_letters::{Attempts, Filters};
use backstop_queue::envelope::EnvelopeKeys;
use serde_json::{Map, Value, json};

use super::super::reading;
use super::super::shown::print_json;
use super::Args;
use crate::error::{CommandError, Context, Result};
use crate::output::println;
use crate::signals::stop_on_signal;

/// Tries a run without its writes.
pub(super) async fn run(
    args: &Args,
    plan: &Plan,
    filters: &Filters,
    queue: &Arc<dyn Queue>,
    keys: Option<&EnvelopeKeys>,
    connections: &Arc<Connections>,
) -> Result<()> {
    let stop = stop_on_signal(reading::STOPPING)?;
    let shown = reading::Progress::start("letters read");
    let each = || shown.step();
    let found = rehearse(queue, connections, plan, keys, filters, &stop, each).await;
    drop(shown);
    let found = found.with_context(|| one_line(queue.url()))?;
    if args.json {
        print_json(&as_json(plan, &found))
    } else {
        print(plan, &found)
    }
    ended(queue, found)
}

/// The exit code that the run would have, as far as it is known before.
fn ended(queue: &Arc<dyn Queue>, found: Rehearsal) -> Result<()> {
    let left = found.refused + found.behind;
    match found.error {
        Some(error) => Err(error).with_context(|| one_line(queue.url())),
        None if left > 0 => Err(CommandError::NotMoved(format!(
            "{} would not be moved",
            reading::letters(usize::try_from(left).unwrap_or(usize::MAX))
        ))),
        None => reading::whole(
            [&found.seen],
            "there may be more letters than those counted",
        ),
    }
}

fn as_json(plan: &Plan, found: &Rehearsal) -> Value {
    let survey = &found.survey;
    let targets = found.accepted.iter();
    let targets: Map<_, _> = targets
        .map(|(to, count)| (to.to_string(), json!(count)))
        .collect();
    let refusals = found.refusals.iter();
    let refusals: Vec<_> = refusals
        .map(|(why, (count, sample))| json!({"reason": why, "count": count, "sample": sample}))
        .collect();
    let mut shown = reading::as_json(&found.seen);
    if let Some(fields) = shown.as_object_mut() {
        for (name, value) in [
            ("version", json!(1)),
            ("queue", json!(plan.queue)),
            ("letters", json!(survey.members.len())),
            ("would-move", json!(found.moved())),
            ("targets", targets.into()),
            ("refused", json!(found.refused)),
            ("refusals", json!(refusals)),
            ("behind", json!(found.behind)),
            ("without-target", json!(survey.without_target)),
            ("unknown-attempts", json!(survey.unknown_attempts)),
            ("bytes", json!(survey.bytes)),
            ("error", json!(found.error.as_ref().map(|it| chain(it)))),
        ] {
            fields.insert(name.to_owned(), value);
        }
    }
    shown
}

fn print(plan: &Plan, found: &Rehearsal) {
    let (survey, seen) = (&found.survey, &found.seen);
    println!("{}", reading::summary_of(seen, &one_line(&plan.queue)));
    println!("{:>7}  would be moved", found.moved());
    for (to, count) in &found.accepted {
        println!("{count:>7}  to {}", one_line(&to.to_string()));
    }
    if found.refused > 0 {
        println!("{:>7}  would be refused", found.refused);
    }
    for (why, (count, sample)) in &found.refusals {
        let (why, sample) = (one_line(why), one_line(sample));
        println!("         {count:>7}  {why}, such as {sample}");
    }
    if found.behind > 0 {
        println!(
            "{:>7}  would stay behind a letter of their group that stays",
            found.behind
        );
    }
    if survey.without_target > 0 {
        println!(
            "{:>7}  do not say where they come from, such as {}: name the target with --to",
            survey.without_target,
            one_line(&survey.samples.join(", "))
        );
    }
    if survey.unknown_attempts > 0 && plan.attempts == Attempts::Keep {
        println!(
            "{:>7}  do not say how many attempts were made: theirs start again",
            survey.unknown_attempts
        );
    }
    if plan.edit {
        println!("\nIt is unknown what becomes of the letters in the editor.");
    }
    if seen.fifo {
        println!(
            "\nOf a FIFO queue, only the first letters of each group can be seen before they are deleted: there may be more."
        );
    }
}
