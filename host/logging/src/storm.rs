//! Bounds the lines of a storm: when ten thousand messages fail in the same way, one line a second says so, with the number of those that were left out.
//!
//! Lines have the same cause if they come from the same place in the code, are about the same queue, have the same error, and say the same but for numbers. Of each cause, [`BURST`] lines are written at once and then one a second. The next line has the count of those that were left out; if there is none, a line for itself has it.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use backstop_core::clock;
use backstop_core::lock::lock;
use tracing::Level;
use tracing::callsite::Identifier;

/// The most lines of a cause that are written at once.
const BURST: u32 = 10;

/// The time after which there is another line of a cause.
const EVERY: Duration = Duration::from_secs(1);

/// How long after its last line a cause is over: then its count is a line for itself.
const OVER: Duration = Duration::from_secs(2);

/// The most causes. Further ones of the same place in the code are one cause.
const MOST_CAUSES: usize = 1_000;

/// The target of the lines that have a count alone.
pub(crate) const COUNTS: &str = "backstop::left_out";

/// What lines have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cause {
    pub(crate) place: Identifier,
    pub(crate) queue: String,
    pub(crate) error: String,
    /// What else tells them apart, without numbers: what the line says, and the reason.
    pub(crate) what: String,
}

/// What a line of a cause says, for its counts.
#[derive(Debug, Clone)]
struct Example {
    level: Level,
    message: String,
}

/// The lines of one cause.
#[derive(Debug)]
struct Lines {
    /// How many may be written now.
    allowed: u32,
    /// Since when one more is due every second.
    since: Instant,
    last: Instant,
    left_out: u64,
    example: Option<Example>,
}

/// Lines that were left out.
#[derive(Debug)]
struct LeftOut {
    cause: Cause,
    example: Example,
    lines: u64,
}

/// Bounds the lines of each cause.
#[derive(Debug)]
pub struct Storm {
    causes: Mutex<HashMap<Cause, Lines>>,
    /// A line was left out.
    begun: SyncSender<()>,
}

impl Storm {
    /// Starts the thread that writes counts for which no further line comes.
    pub fn start() -> io::Result<Arc<Self>> {
        let (storm, begun) = Self::new();
        let counting = Arc::clone(&storm);
        thread::Builder::new()
            .name("left-out".to_owned())
            .spawn(move || counting.count(&begun))?;
        Ok(storm)
    }

    /// Without the thread.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (begun, receiver) = sync_channel(1);
        let causes = Mutex::default();
        (Arc::new(Self { causes, begun }), receiver)
    }

    /// Logs the counts of lines that were left out and have not been logged. Called at the end.
    pub fn finish(&self) {
        self.take(|_| true).into_iter().for_each(LeftOut::log);
    }

    /// Whether a line is written: `Some` with the number of those before it that were left out. `message` is what the line says.
    pub(crate) fn admit(
        &self,
        cause: Cause,
        level: Level,
        message: impl FnOnce() -> String,
    ) -> Option<u64> {
        self.admit_at(clock::instant(), cause, level, message)
    }

    fn admit_at(
        &self,
        now: Instant,
        cause: Cause,
        level: Level,
        message: impl FnOnce() -> String,
    ) -> Option<u64> {
        let mut causes = lock(&self.causes);
        let is_known = causes.contains_key(&cause);
        if !is_known && causes.len() >= MOST_CAUSES {
            causes.retain(|_, lines| lines.left_out > 0 || now - lines.last < OVER);
        }
        let cause = if is_known || causes.len() < MOST_CAUSES {
            cause
        } else {
            Cause {
                queue: String::new(),
                error: String::new(),
                what: String::new(),
                ..cause
            }
        };
        let lines = causes.entry(cause).or_insert(Lines {
            allowed: BURST,
            since: now,
            last: now,
            left_out: 0,
            example: None,
        });
        while lines.allowed < BURST && now - lines.since >= EVERY {
            lines.since += EVERY;
            lines.allowed += 1;
        }
        if lines.allowed > 0 {
            if lines.allowed == BURST {
                lines.since = now;
            }
            lines.allowed -= 1;
            lines.last = now;
            return Some(std::mem::take(&mut lines.left_out));
        }
        lines.left_out += 1;
        lines.example.get_or_insert_with(|| Example {
            level,
            message: message(),
        });
        drop(causes);
        let _ = self.begun.try_send(());
        None
    }

    /// The counts of causes of which no line came lately, as long as there are any.
    fn count(&self, begun: &Receiver<()>) {
        while begun.recv().is_ok() {
            while self.is_counting() {
                thread::sleep(EVERY);
                let now = clock::instant();
                let over = self.take(|lines| now - lines.last >= OVER);
                over.into_iter().for_each(LeftOut::log);
            }
        }
    }

    fn is_counting(&self) -> bool {
        lock(&self.causes).values().any(|lines| lines.left_out > 0)
    }

    fn take(&self, is_taken: impl Fn(&Lines) -> bool) -> Vec<LeftOut> {
        let mut causes = lock(&self.causes);
        let counted = causes
            .iter_mut()
            .filter(|(_, it)| it.left_out > 0 && is_taken(it));
        counted
            .filter_map(|(cause, lines)| {
                Some(LeftOut {
                    cause: cause.clone(),
                    example: lines.example.clone()?,
                    lines: std::mem::take(&mut lines.left_out),
                })
            })
            .collect()
    }
}

impl LeftOut {
    fn log(self) {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let (queue, error) = (some(self.cause.queue), some(self.cause.error));
        let (lines, message) = (self.lines, self.example.message);
        match self.example.level {
            Level::ERROR => {
                tracing::error!(target: COUNTS, queue, error, "left-out" = lines, "{message}");
            }
            Level::WARN => {
                tracing::warn!(target: COUNTS, queue, error, "left-out" = lines, "{message}");
            }
            _ => tracing::info!(target: COUNTS, queue, error, "left-out" = lines, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Callsite;

    fn cause(number: usize) -> Cause {
        struct Here;
        impl Callsite for Here {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &tracing::Metadata<'_> {
                unreachable!("nobody asks for it")
            }
        }
        static HERE: Here = Here;
        Cause {
            place: Identifier(&HERE),
            queue: "orders".to_owned(),
            error: number.to_string(),
            what: String::new(),
        }
    }

    fn admit(storm: &Storm, now: Instant, number: usize) -> Option<u64> {
        storm.admit_at(now, cause(number), Level::INFO, || "retry".to_owned())
    }

    #[test]
    fn a_storm_has_a_line_a_second_after_ten_and_each_cause_its_own() {
        let (storm, _begun) = Storm::new();
        let start = clock::instant();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut written = Vec::new();
        for ms in 0..5_000 {
            if let Some(left_out) = admit(&storm, at(ms), 1) {
                written.push((ms, left_out));
            }
        }
        let first: Vec<_> = (0..10).map(|ms| (ms, 0)).collect();
        assert_eq!(written[..10], first);
        let rest = [(1_000, 990), (2_000, 999), (3_000, 999), (4_000, 999)];
        assert_eq!(written[10..], rest);
        assert_eq!(admit(&storm, at(5_000), 2), Some(0));
        // What was left out last is not lost.
        let rest = storm.take(|_| true);
        assert_eq!((rest.len(), rest[0].lines), (1, 999));
        assert!(storm.take(|_| true).is_empty());
        // After a quiet time, ten are written again.
        for ms in 60_000..60_010 {
            assert_eq!(admit(&storm, at(ms), 1), Some(0));
        }
        assert_eq!(admit(&storm, at(60_010), 1), None);
    }

    #[test]
    fn there_are_so_many_causes_at_most_and_further_ones_are_one() {
        let (storm, _begun) = Storm::new();
        let now = clock::instant();
        let written = (0..20_000).filter(|number| admit(&storm, now, *number).is_some());
        assert_eq!(written.count(), MOST_CAUSES + 10);
        assert_eq!(lock(&storm.causes).len(), MOST_CAUSES + 1);
        let later = now + OVER;
        admit(&storm, later, 20_001);
        assert!(lock(&storm.causes).len() < 10);
    }
}
