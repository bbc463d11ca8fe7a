//! What was seen from outside: by the callers, by their work, and by the table.

use std::fmt::Write as _;
use std::time::Duration;

use backstop_idempotency::LeaseEnd;

/// A record, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) status: String,
    pub(crate) owner: String,
    /// In milliseconds since 1970.
    pub(crate) lease: u64,
    /// In seconds since 1970.
    pub(crate) expires: u64,
    pub(crate) data: Option<String>,
}

impl Row {
    pub(crate) fn is_in_progress(&self) -> bool {
        self.status == "INPROGRESS"
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed {
        result: String,
        repeated: bool,
        recorded: bool,
    },
    Failed,
    InProgress,
    Unknown,
    LeaseEnded(LeaseEnd),
    Store(String),
    NotStored,
    Mismatch,
    /// What no call here may end with.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A call begins.
    Called {
        call: u32,
        key: u32,
        host: usize,
        /// The time of day of its host, in milliseconds since 1970.
        now: u64,
        deadline: Option<Duration>,
        wait: Option<Duration>,
        other_payload: bool,
    },
    /// A step of a call's work.
    Stepped {
        call: u32,
        key: u32,
        step: u32,
    },
    /// The end of a call's work, with its result if it succeeds.
    Worked {
        call: u32,
        key: u32,
        result: Option<String>,
        large: bool,
    },
    Returned {
        call: u32,
        key: u32,
        outcome: Outcome,
    },
    /// A request that a call makes.
    Requested {
        call: u32,
    },
    /// A request went wrong, or was late.
    Faulty {
        call: u32,
        what: &'static str,
    },
    /// What a request of a call made of a record.
    Written {
        call: u32,
        key: u32,
        /// The time of day of its host.
        now: u64,
        row: Option<Row>,
    },
    /// The time to live deleted a record.
    Expired {
        key: u32,
    },
    Killed {
        host: usize,
    },
    Frozen {
        host: usize,
    },
    Thawed {
        host: usize,
    },
    ClockSet {
        host: usize,
        seconds: i64,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) events: Vec<(Duration, Event)>,
    pub(crate) unended: Vec<String>,
}

impl History {
    /// The events of one key, and of all hosts, as lines.
    pub(crate) fn of(&self, wanted: u32) -> String {
        let mut text = String::new();
        let mut calls = Vec::new();
        for (at, event) in &self.events {
            let is_its = match event {
                Event::Called { call, key, .. } => {
                    if *key == wanted {
                        calls.push(*call);
                    }
                    *key == wanted
                }
                Event::Stepped { key, .. }
                | Event::Worked { key, .. }
                | Event::Returned { key, .. }
                | Event::Written { key, .. }
                | Event::Expired { key } => *key == wanted,
                Event::Requested { .. } => false,
                Event::Faulty { call, .. } => calls.contains(call),
                Event::Killed { .. }
                | Event::Frozen { .. }
                | Event::Thawed { .. }
                | Event::ClockSet { .. } => true,
            };
            if is_its {
                let mut shown = format!("{event:?}");
                shown.truncate(shown.floor_char_boundary(300));
                let _ = writeln!(text, "{:10.3}s  {shown}", at.as_secs_f64());
            }
        }
        text
    }
}
