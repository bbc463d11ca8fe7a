//! What was seen from outside: by the function, by the queues, by the mapping, and in the records of decisions.

use std::fmt::Write as _;
use std::time::Duration;

use backstop_core::decision::Action;

/// An event, and the run of its function that a record is about.
pub(crate) type Failed = (u32, u32);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// Lambda has accepted an event: from a client, or for a record.
    Accepted {
        number: u32,
        after: Option<u32>,
    },
    Ran {
        number: u32,
        run: u32,
    },
    Ended {
        number: u32,
        run: u32,
        fails: Option<&'static str>,
    },
    /// The record of a failed run is in the retry queue.
    Recorded {
        of: Failed,
        at: Duration,
    },
    Received {
        of: Failed,
        count: u32,
    },
    Duplicated {
        of: Failed,
    },
    /// An environment, with a version of the policy by its first delay in seconds.
    Started {
        env: u64,
        base: u64,
    },
    Began {
        env: u64,
        all: Vec<Failed>,
    },
    /// What the mapping heard of an invocation.
    Responded {
        env: u64,
        all: Vec<Failed>,
        response: Response,
    },
    Killed {
        env: u64,
    },
    Decided {
        env: u64,
        of: Failed,
        attempt: u32,
        action: Action,
        by: String,
    },
    Hidden {
        of: Failed,
        seconds: u32,
    },
    Copied {
        of: Failed,
    },
    Letter {
        of: Failed,
        reason: Option<String>,
    },
    Deleted {
        of: Failed,
        by_mapping: bool,
    },
    /// Something went wrong with a request, or with a record.
    Faulty {
        of: Option<Failed>,
        what: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// These come again.
    Named(Vec<Failed>),
    /// It names a message that is not of the batch.
    Invalid(String),
    /// All come again.
    Error(String),
    /// It was not there at the end of the function's timeout.
    TimedOut,
    /// Killed, or its response was lost.
    Lost,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    pub(crate) events: Vec<(Duration, Event)>,
    pub(crate) requests: u64,
    pub(crate) unended: Vec<String>,
}

impl History {
    /// The events that concern one event, as lines.
    pub(crate) fn of(&self, number: u32) -> String {
        let mut text = String::new();
        let marks = [format!("number: {number},"), format!("({number}, ")];
        for (at, event) in &self.events {
            let shown = format!("{event:?}");
            let is_all =
                !shown.contains("number: ") && !shown.contains("of: (") && !shown.contains("all: ");
            if is_all || marks.iter().any(|mark| shown.contains(mark)) {
                let _ = writeln!(text, "{:10.3}s  {shown}", at.as_secs_f64());
            }
        }
        text
    }
}
