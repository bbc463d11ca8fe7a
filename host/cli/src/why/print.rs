//! The story for people.

use backstop_core::decision::{Action, DecidedBy};
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::one_line;
use backstop_records::{DecisionRecord, LifeEvent};
use backstop_workbench::replay::{Happened, NotComparable, Step, Today};

use super::letters::{LetterEvent, LetterStep, Run};
use super::story::{Story, Told};
use crate::terminal::println;
use crate::terminal::style::{DIM, YELLOW};

/// The most ids that are shown.
const MOST_IDS: usize = 20;

/// Prints all steps. What follows the last one is said unless a host says it, since the message `is_waiting`.
pub(super) fn print(story: &Story, asked: &str, is_waiting: bool, now: Timestamp) {
    let (named, steps) = (story.named(), story.steps());
    let first = named.first().copied().unwrap_or(asked);
    match steps.iter().find_map(|step| step.queue()) {
        Some(queue) => println!("message {} of {}", one_line(first), one_line(queue)),
        None => println!("message {}", one_line(first)),
    }
    let others = named.iter().skip(1);
    for id in others.clone().take(MOST_IDS) {
        println!("  later {}", one_line(id));
    }
    let more = others.count().saturating_sub(MOST_IDS);
    if more > 0 {
        println!("  and {more} further ids");
    }
    for step in &steps {
        println!();
        match step {
            Told::Decided(step) => decided(step, first),
            Told::Happened(step) => {
                println!("{}", one_line(&happened(step)));
                if let Some(id) = other_id(step, first) {
                    println!("  received as {}", one_line(id));
                }
            }
            Told::Letter(step) => println!("{}", one_line(&of_letter(step))),
        }
        println!("  {DIM}{}{DIM:#}", step.at());
    }
    println!();
    let life = &story.life;
    if life.left_out > 0 {
        println!("{} further records are left out", life.left_out);
    }
    for gap in &story.gaps {
        println!("{YELLOW}{}{YELLOW:#}", one_line(gap));
    }
    if let Some((at, why)) = &life.unreadable {
        println!("{at} names the message and is {why}");
    }
    let own = steps.iter().rev().find(|step| !is_of_queue(step));
    if !is_waiting && let Some(last) = own {
        println!("{}", one_line(&what_follows(last, first, now)));
    }
}

/// The id under which an event's message was received, if that is another one: its sender may have claimed that it is this message.
fn other_id<'a>(step: &'a Happened, first: &str) -> Option<&'a str> {
    let message = step.record.message.as_ref()?;
    let copy = message.others.received_as.as_ref();
    let id = copy.unwrap_or(&message.message_id);
    (id != first).then_some(id)
}

fn is_of_queue(step: &Told<'_>) -> bool {
    matches!(step, Told::Happened(it) if it.record.message.is_none())
}

/// Prints an attempt that failed.
fn decided(step: &Step, first: &str) {
    let record = &step.record;
    let failure = &record.failure;
    // Work in progress elsewhere.
    let attempt = if failure.error.is_in_progress() {
        "no attempt".to_owned()
    } else {
        format!("attempt {}", failure.attempt)
    };
    println!(
        "{attempt}  {}  {}",
        failure.failed_at.rfc3339(),
        one_line(&failure.error.to_string())
    );
    println!("  {}", one_line(&decision(record)));
    for note in notes(record, first) {
        println!("  {}", one_line(&note));
    }
    for line in &record.log {
        println!(
            "  log {}: {}",
            one_line(&line.level),
            one_line(&line.message)
        );
    }
    if let Some(today) = &step.today {
        println!("  {YELLOW}today: {}{YELLOW:#}", one_line(&answer(today)));
    }
}

/// `succeeded  2026-11-26T08:00:00Z  attempt 3`
fn happened(step: &Happened) -> String {
    let record = &step.record;
    let (time, queue) = (record.time.rfc3339(), &record.queue);
    match &record.event {
        LifeEvent::Succeeded {
            attempt,
            not_deleted,
        } => {
            let end = if *not_deleted {
                ", and it could not be deleted: it may be delivered again"
            } else {
                ""
            };
            format!("succeeded  {time}  attempt {attempt}{end}")
        }
        LifeEvent::DeadLettered {
            reason,
            dead_letter_queue,
            letter_id,
        } => {
            let id = letter_id.as_ref().map(|id| format!(" as {id}"));
            let id = id.unwrap_or_default();
            format!("died  {time}  in {dead_letter_queue}{id}: {reason}")
        }
        LifeEvent::SentAgain { sent_as, due, hops } => {
            let id = sent_as.as_ref().map(|id| format!(" as {id}"));
            let (id, due) = (id.unwrap_or_default(), due.rfc3339());
            let hop = match hops {
                0 => String::new(),
                hops => format!(", hop {}", u64::from(*hops) + 1),
            };
            format!("sent again  {time}{id}, due at {due}{hop}")
        }
        LifeEvent::Woken {
            by,
            due,
            was_due,
            policy,
        } => {
            let policy = policy.as_ref().map(|it| format!(" with {it}"));
            let (policy, due) = (policy.unwrap_or_default(), due.rfc3339());
            let was_due = was_due.rfc3339();
            format!("woken  {time}  by {by}{policy}: due at {due}, and not at {was_due}")
        }
        LifeEvent::Paused { by, why, until } => {
            let why = why.as_ref().map(|why| format!(": {why}"));
            let until = until.map(|until| format!(", until {}", until.rfc3339()));
            let (why, until) = (why.unwrap_or_default(), until.unwrap_or_default());
            format!("paused  {time}  {queue} by {by}{until}{why}")
        }
        LifeEvent::Resumed { by } => format!("resumed  {time}  {queue} by {by}"),
    }
}

fn of_letter(step: &LetterStep) -> String {
    let (time, id) = (step.time.rfc3339(), &step.letter_id);
    match &step.event {
        LetterEvent::Archived { dead_letter_queue } => {
            format!("archived  {time}  {id} of {dead_letter_queue}")
        }
        LetterEvent::Redriven { run, sent_as } => {
            let new = sent_as.as_ref().map(|id| format!(" as {id}"));
            let new = new.unwrap_or_default();
            format!("redriven  {time}  {id}{new}, by {}", of_run(run))
        }
        LetterEvent::RedriveRefused { run, reason } => {
            format!("not redriven  {time}  {id}: {reason}, by {}", of_run(run))
        }
        LetterEvent::CameBack { run, new_letter_id } => {
            let run = of_run(run);
            format!("seen to have died again  {time}  {id} as {new_letter_id}, by {run}")
        }
    }
}

/// `ann@ops in run 20261122-031500-7f3a: the provider is back`
fn of_run(run: &Run) -> String {
    let why = run.why.as_ref().map(|why| format!(": {why}"));
    format!("{} in run {}{}", run.who, run.run, why.unwrap_or_default())
}

/// `transient: retry in 2s (visibility), by full-jitter (3f2a91c04d17) base=2s`
fn decision(record: &DecisionRecord) -> String {
    let decision = &record.decision;
    let made = match &decision.action {
        Action::Retry { delay } => {
            let (taken, hold) = (delay.whole_seconds(), decision.hold.as_str());
            if taken == *delay {
                format!("retry in {delay} ({hold})")
            } else {
                format!("retry in {taken} ({hold}, {delay} in whole seconds)")
            }
        }
        action @ (Action::DeadLetter { .. } | Action::Discard { .. }) => action.to_string(),
    };
    let policy: Vec<_> = record
        .policy
        .iter()
        .map(|part| {
            if part.settings.is_empty() {
                part.to_string()
            } else {
                format!("{part} {}", part.settings)
            }
        })
        .collect();
    let policy = policy.join(" + ");
    let by = match &decision.decided_by {
        DecidedBy::Policy => policy,
        DecidedBy::Shortened(wanted) => format!("{policy}, which wanted {wanted}"),
        DecidedBy::Bound(bound) => format!("the limit of the queue ({bound}), after {policy}"),
        DecidedBy::Fallback(cause) => format!("the fallback: {} ({policy})", cause.text),
    };
    format!("{}: {made}, by {by}", decision.class)
}

/// What else the record says about the attempt.
fn notes(record: &DecisionRecord, first: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let id = &record.failure.message_id;
    let copy = record.others.received_as.as_ref();
    if let Some(copy) = copy.or(Some(id).filter(|id| *id != first)) {
        notes.push(format!("received as {copy}"));
    }
    if record.hops > 0 {
        notes.push(format!(
            "sent again {} times before it was due",
            record.hops
        ));
    }
    if let Some(down_for) = record.decision.down_for {
        notes.push(format!(
            "the policy says that what is behind it is down for {down_for}"
        ));
    }
    if record.duplicate {
        notes.push("another copy of the message had made this attempt already".to_owned());
    }
    if let Some(end) = record.end {
        notes.push(format!("the call ended: {end}"));
    }
    notes
}

fn answer(today: &Today) -> String {
    match today {
        Today::Answer(answer) => match answer.class() {
            Some(class) => format!("{class}: {answer}"),
            None => answer.to_string(),
        },
        Today::Unknown(NotComparable::NotRecorded) => {
            "unknown: the policy reads parts of the payload that the record does not have"
                .to_owned()
        }
        Today::Unknown(_) => "unknown: the policy took too long".to_owned(),
    }
}

/// What became of the message after its last step, as far as that shows.
fn what_follows(last: &Told<'_>, first: &str, now: Timestamp) -> String {
    match last {
        Told::Decided(step) => after_decision(step, now),
        Told::Happened(step) => match &step.record.event {
            LifeEvent::Succeeded { attempt, .. } => match other_id(step, first) {
                Some(id) => format!("It succeeded in attempt {attempt}, received as {id}."),
                None => format!("It succeeded in attempt {attempt}."),
            },
            LifeEvent::DeadLettered { .. } => "It is dead.".to_owned(),
            LifeEvent::SentAgain { due, .. } | LifeEvent::Woken { due, .. } => waits(*due, now),
            LifeEvent::Paused { .. } | LifeEvent::Resumed { .. } => String::new(),
        },
        Told::Letter(step) => match &step.event {
            LetterEvent::Archived { .. } => "Its letter is archived.".to_owned(),
            LetterEvent::Redriven { .. } => {
                "It was redriven. Nothing is recorded of it since then.".to_owned()
            }
            LetterEvent::RedriveRefused { .. } => "It is dead.".to_owned(),
            LetterEvent::CameBack { .. } => "It has died again.".to_owned(),
        },
    }
}

fn after_decision(last: &Step, now: Timestamp) -> String {
    let record = &last.record;
    match record.decision.action {
        Action::Retry { delay } => {
            let left = delay.whole_seconds().as_duration();
            waits(record.failure.failed_at.plus(left), now)
        }
        Action::DeadLetter { .. } | Action::Discard { .. } => {
            format!("It ended with the {}.", record.decision.action.verdict())
        }
    }
}

/// A message whose next attempt is due at this time.
fn waits(due: Timestamp, now: Timestamp) -> String {
    if now < due {
        let left = Milliseconds::from_duration(due.since(now));
        return format!("Its next attempt is due at {}, in {left}.", due.rfc3339());
    }
    format!(
        "Its next attempt was due at {}. No later failure is recorded: it succeeded, waits for a host, or is being handled.",
        due.rfc3339()
    )
}
