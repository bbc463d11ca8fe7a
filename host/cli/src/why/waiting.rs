//! What a host remembers of a message that waits.

use backstop_core::decision::Hold;
use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_host::admin::Host;
use backstop_settle::waiting::{MessageReport, Today};

use crate::terminal::println;
use crate::terminal::style::{BOLD, YELLOW};
use crate::time::at;

/// Prints what a host remembers.
pub(super) fn print(host: &Host, message: &MessageReport, now: Timestamp) {
    println!(
        "{BOLD}The message {} of {} waits for its next attempt, due at {}.{BOLD:#}",
        one_line(&message.id),
        one_line(&message.queue),
        at(message.due, now)
    );
    if let Some(decided) = message.decided_due {
        println!(
            "  that is sooner than decided: it was due at {}",
            at(decided, now)
        );
    }
    println!("  {}", held(message, now));
    let failure = match &message.error {
        Some(error) => error.to_string(),
        None => message.code.clone(),
    };
    println!(
        "  attempt {} failed at {}: {} ({})",
        message.attempt,
        message.failed_at.rfc3339(),
        one_line(&failure),
        one_line(&message.class)
    );
    println!("  decided by {}", one_line(&message.policy));
    println!(
        "  {YELLOW}today: {}{YELLOW:#}",
        one_line(&today(&message.today))
    );
    println!("  as {} remembers", one_line(host.name()));
}

fn held(message: &MessageReport, now: Timestamp) -> String {
    match message.hold {
        Hold::Visibility => format!(
            "it is invisible in its queue since receive {}",
            message.receives
        ),
        Hold::Resend => format!(
            "it is held by being sent again: its hop ends at {}",
            at(message.visible, now)
        ),
    }
}

fn today(today: &Today) -> String {
    match today {
        Today::Decision(decision) => {
            let (class, action) = (&decision.class, &decision.action);
            format!("{class}: {action}, by {}", decision.decided_by)
        }
        Today::NotComparable => {
            "unknown: the active policy reads parts of the payload that the host does not remember"
                .to_owned()
        }
        Today::NotRemembered => {
            "unknown: the failure is too large to be remembered, or another host has seen it"
                .to_owned()
        }
    }
}
