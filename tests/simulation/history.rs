//! What was seen from outside: by the queue, by the worker, by operators, and in the records of decisions.

use std::fmt::Write as _;
use std::time::Duration;

use backstop_core::decision::Action;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Sent {
        number: u32,
    },
    Started {
        host: u64,
        slot: usize,
        /// Where it keeps what outlives it.
        folder: Option<usize>,
        /// The version of its policy.
        version: usize,
    },
    Killed {
        host: u64,
    },
    Stopping {
        host: u64,
    },
    Ended {
        host: u64,
    },
    Received {
        host: u64,
        number: u32,
        count: u32,
    },
    Duplicated {
        host: u64,
        number: u32,
    },
    /// A delete that the queue has carried out.
    Deleted {
        host: u64,
        number: u32,
    },
    /// A visibility that the queue has changed, in seconds from now.
    Hidden {
        host: u64,
        number: u32,
        seconds: u32,
    },
    /// A request, or an entry of one, that was not carried out, or whose answer was lost.
    Faulty {
        host: u64,
        number: Option<u32>,
        operation: &'static str,
    },
    /// How many messages are in flight, as the queue has told a host.
    Counted {
        host: u64,
        in_flight: usize,
    },
    /// A message that a host has sent to its own queue.
    Copied {
        host: u64,
        number: u32,
    },
    /// A message in the dead-letter queue.
    Letter {
        host: u64,
        number: u32,
        reason: Option<String>,
    },
    AttemptBegan {
        host: u64,
        number: u32,
        count: u32,
    },
    AttemptEnded {
        host: u64,
        number: u32,
        fails: Option<&'static str>,
    },
    /// The worker did not see it.
    Unavailable {
        host: u64,
        number: u32,
    },
    Decided {
        host: u64,
        number: u32,
        attempt: u32,
        action: Action,
        by: String,
        /// The version that decided, if the plan has versions.
        version: Option<usize>,
        /// The id by which the policy knows the message.
        id: String,
        /// Whether the failure may be that of what is behind the worker: it is transient or throttled.
        is_passing: bool,
        /// How long something is down, as the policy says.
        down_for: Option<Duration>,
    },
    /// A host uses another version from now on.
    Swapped {
        host: u64,
        version: usize,
    },
    /// A host has looked for a new version of its policy, when there was none.
    Checked {
        host: u64,
    },
    /// An operator has asked a host to roll its policy back.
    RolledBack {
        host: u64,
        is_done: bool,
    },
    Woken {
        host: u64,
    },
    Paused {
        host: u64,
    },
    /// The end of a pause.
    Resumed {
        host: u64,
    },
    /// The most messages in a second, if there is a limit.
    Rated {
        host: u64,
        rate: Option<u32>,
    },
    /// The most messages in flight.
    Narrowed {
        host: u64,
        most: usize,
    },
    Frozen {
        slot: usize,
    },
    Thawed {
        slot: usize,
    },
    /// A run of an operator begins, or goes on.
    RedriveBegan {
        host: u64,
    },
    /// It ends: as planned, or with an error.
    RedriveEnded {
        host: u64,
        result: String,
    },
    /// A letter that an operator has sent back to the queue.
    SentBack {
        host: u64,
        number: u32,
    },
    /// A letter that an operator has deleted from the dead-letter queue.
    LetterDeleted {
        host: u64,
        number: u32,
    },
    /// A message that was left in the queue when the hosts had stopped.
    Found {
        number: u32,
    },
}

/// Every event with its time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    pub(crate) events: Vec<(Duration, Event)>,
    /// How many requests the hosts have made.
    pub(crate) requests: u64,
    /// What has never ended: messages in the queue, a host that was stopped, or a run.
    pub(crate) unended: Vec<String>,
}

impl History {
    /// The events of one message, as lines.
    pub(crate) fn of(&self, number: u32) -> String {
        let mut text = String::new();
        let mark = format!("number: {number}");
        for (at, event) in &self.events {
            let shown = format!("{event:?}");
            let is_host = !shown.contains("number: ");
            let is_its =
                shown.contains(&format!("{mark},")) || shown.contains(&format!("{mark} }}"));
            let is_its = is_its || shown.contains(&format!("Some({number})"));
            if is_host || is_its {
                let _ = writeln!(text, "{:10.3}s  {shown}", at.as_secs_f64());
            }
        }
        text
    }
}
