//! `--dry-run`: what a run would do, and its exit code.

use std::sync::Arc;

use backstop_core::text::{chain, one_line};
use backstop_dead_letters::redrive::{Plan, Rehearsal, rehearse};
use backstop_dead_letters::{Attempts, Filters, Seen};
use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, Queue};
use serde_json::{Map, Value, json};

use super::super::reading;
use super::Args;
use super::report::{line, some};
use crate::error::{Context, Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, println};

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
    let shown = Progress::counting("letters read");
    let each = || shown.add(1);
    let rehearsed = rehearse(queue, connections, plan, keys, filters, &stop, each).await;
    drop(shown);
    let (found, seen) = rehearsed.with_context(|| one_line(queue.url()))?;
    if args.json {
        println!("{}", as_json(plan, &found, &seen))
    } else {
        print(plan, &found, &seen)
    }
    ended(queue, found, &seen)
}

/// The exit code that the run would have, as far as it is known before.
fn ended(queue: &Arc<dyn Queue>, found: Rehearsal, seen: &Seen) -> Result<()> {
    let left = found.refused + found.behind;
    match found.error {
        Some(error) => Err(error).with_context(|| one_line(queue.url())),
        None if left > 0 => {
            Err(Exit::Undelivered.because(format!("{} would not be moved", reading::letters(left))))
        }
        None => reading::whole([seen], "there may be more letters than those counted"),
    }
}

fn as_json(plan: &Plan, found: &Rehearsal, seen: &Seen) -> Value {
    let survey = &found.survey;
    let targets = found.accepted.iter();
    let targets: Map<_, _> = targets
        .map(|(to, count)| (to.to_string(), json!(count)))
        .collect();
    let refusals = found.refusals.iter();
    let refusals: Vec<_> = refusals
        .map(|(why, (count, sample))| json!({"reason": why, "count": count, "sample": sample}))
        .collect();
    let found_out = json!({
        "version": 1,
        "queue": plan.queue,
        "letters": survey.members.len(),
        "would-move": found.moved(),
        "targets": targets,
        "refused": found.refused,
        "refusals": refusals,
        "behind": found.behind,
        "without-target": survey.without_target,
        "unknown-attempts": survey.unknown_attempts,
        "bytes": survey.bytes,
        "error": found.error.as_ref().map(|it| chain(it)),
    });
    reading::as_json(seen, found_out)
}

fn print(plan: &Plan, found: &Rehearsal, seen: &Seen) {
    let survey = &found.survey;
    println!("{}", reading::summary(seen, Some(&plan.queue)));
    line(found.moved(), "would be moved");
    for (to, count) in &found.accepted {
        line(*count, &format!("to {}", one_line(&to.to_string())));
    }
    some(found.refused, "would be refused");
    for (why, (count, sample)) in &found.refusals {
        let (why, sample) = (one_line(why), one_line(sample));
        println!("         {count:>7}  {why}, such as {sample}");
    }
    let behind = "would stay behind a letter of their group that stays";
    some(found.behind, behind);
    let samples = one_line(&survey.samples.join(", "));
    let lost =
        format!("do not say where they come from, such as {samples}: name the target with --to");
    some(survey.without_target, &lost);
    if plan.attempts == Attempts::Keep {
        let unknown = "do not say how many attempts were made: theirs start again";
        some(survey.unknown_attempts, unknown);
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
