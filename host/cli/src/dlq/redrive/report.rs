//! What a run has done, for people and for programs.

use backstop_core::text::one_line;
use backstop_dead_letters::redrive::{Counts, Outcome, Plan, Summary};
use serde_json::json;

use crate::terminal::{joined, println};

/// Says of a queue that no letter is chosen, so that there is no run.
pub(super) fn nothing(queue: &str, is_json: bool) {
    if is_json {
        let object = json!({"version": 1, "run": null, "queue": queue, "outcome": Outcome::Done});
        let counts = Counts {
            letters: Some(0),
            ..Counts::default()
        };
        return println!("{}", joined(object, json!(counts)));
    }
    println!("{}: no letter is chosen, so none is moved", one_line(queue));
}

/// Prints the result of a run.
pub(super) fn summary(plan: &Plan, summary: &Summary, is_json: bool) {
    if is_json {
        let object = json!({
            "version": 1,
            "run": plan.run,
            "queue": plan.queue,
            "outcome": summary.ended.outcome,
            "reason": summary.ended.text,
            "missing": summary.ended.missing,
            "partial": summary.is_partial,
            "later": summary.ended.later,
            "damaged-lines": summary.damaged,
        });
        return println!("{}", joined(object, json!(summary.counts)));
    }
    println!("run {}: {}", plan.run, one_line(&plan.queue));
    counts(&summary.counts);
    some(
        summary.ended.missing.unwrap_or(0),
        "could not be received: others have taken them, or hold them now",
    );
    if summary.is_partial {
        println!(
            "         not all of the queue was read when the set was fixed (--limit, --visibility-timeout, or others held letters): there may be more"
        );
    }
    some(
        summary.ended.later,
        "arrived after the start, and were left alone",
    );
    damaged(&summary.damaged);
    if plan.watch.is_zero() && summary.counts.moved > 0 && !plan.native {
        println!(
            "\nLater, to see if some have failed again:\n  backstop dlq runs {} --check",
            plan.run
        );
    }
}

/// Names the lines of a journal that can't be read, and what follows.
pub(in crate::dlq) fn damaged(lines: &[u64]) {
    if lines.is_empty() {
        return;
    }
    let shown: Vec<_> = lines.iter().take(10).map(u64::to_string).collect();
    let more = if lines.len() > shown.len() {
        ", …"
    } else {
        ""
    };
    println!(
        "\nLines of journal.jsonl that can't be read: {}{more}. Somebody or the disk has changed them. No letter is lost: a letter is deleted only after its `sent` line was written. A letter whose `sent` line is damaged may have been sent twice.",
        shown.join(", ")
    );
}

/// Prints the counts of a run, those that are not zero.
pub(in crate::dlq) fn counts(counts: &Counts) {
    match counts.letters {
        Some(1) => line(1, "letter in the set"),
        Some(letters) => line(letters, "letters in the set"),
        None => println!(
            "{:>7}  letters in the set: all that were in the FIFO queue at the start",
            "?"
        ),
    }
    line(counts.moved, "moved");
    for (count, what) in [
        (counts.edited, "of them with another body"),
        (
            counts.not_deleted,
            "of them are still in the dead-letter queue, too: --resume deletes them",
        ),
        (counts.failed_again, "of them have failed again"),
        (counts.uncertain, "uncertain: they may have arrived twice"),
        (
            counts.in_doubt,
            "in doubt: they were being sent when the run was killed",
        ),
        (
            counts.refused,
            "refused: they stay in the dead-letter queue",
        ),
    ] {
        some(count, what);
    }
}

/// Prints a count.
pub(super) fn line(count: u64, what: &str) {
    println!("{count:>7}  {what}");
}

/// Prints a count that is not zero.
pub(in crate::dlq) fn some(count: u64, what: &str) {
    if count > 0 {
        line(count, what);
    }
}
