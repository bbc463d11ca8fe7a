//! The host's state for one instance during one decision, and the interfaces that the instance can call.

use std::sync::Arc;

use wasmtime::bail;

use backstop_core::fallback;
use backstop_core::policy::LogLine;

use crate::bindings::{default_classifier, log, payload, types};
use crate::limits::{Limits, Meter};
use crate::payload::{Lookups, Payload};
use crate::payload_reads::PayloadReads;

/// The cost of a call to the host, in bytes of [`Limits::payload`] and in addition to the bytes it moves: this limits the number of calls too.
const CALL: usize = 64;

/// The additional cost of a read of the payload: it limits a decision to 15,000 reads instead of a quarter of a million.
const READ: usize = 1024;

/// The maximum number of log lines of a decision, even if they are short.
const LINES: usize = 256;

/// The time that a policy's clocks show. It never changes: the same failure gets the same answer at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedClock {
    /// The wall clock, in seconds since 1970.
    pub seconds: u64,
    /// The monotonic clock, in nanoseconds. Go's runtime does not start with zero.
    pub monotonic: u64,
}

impl StoppedClock {
    /// The time in production: the wall clock shows 1970.
    pub const AT_WORK: Self = Self {
        seconds: 0,
        monotonic: 1,
    };
}

/// The store's data.
pub(super) struct Host {
    limits: Limits,
    pub(super) meter: Meter,
    payload: Arc<Payload>,
    random: f64,
    clock: StoppedClock,
    is_started: bool,
    used: Used,
}

/// What one evaluation has used so far.
#[derive(Default)]
struct Used {
    random_blocks: u64,
    spent: usize,
    logged: usize,
    printed: Vec<u8>,
    log: Vec<LogLine>,
    lookups: Lookups,
    payload_reads: PayloadReads,
    has_read_clock: bool,
}

impl Host {
    pub(super) fn new(
        limits: Limits,
        payload: Arc<Payload>,
        random: f64,
        clock: StoppedClock,
    ) -> Self {
        Self {
            limits,
            meter: Meter::new(limits),
            payload,
            random,
            clock,
            is_started: false,
            used: Used::default(),
        }
    }

    /// Resets everything but the memory that the instance has allocated.
    pub(super) fn renew(&mut self, random: f64) {
        self.random = random;
        self.used = Used::default();
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Marks the end of the language runtime's start: reads of a clock count from now on.
    pub(super) fn start_evaluation(&mut self) {
        self.is_started = true;
    }

    /// The time for the policy.
    pub(super) fn read_clock(&mut self) -> StoppedClock {
        self.used.has_read_clock |= self.is_started;
        self.clock
    }

    /// Whether the policy has read a clock since its runtime started.
    pub(super) fn has_read_clock(&self) -> bool {
        self.used.has_read_clock
    }

    /// The lines that the policy logged, and what it read of the payload.
    pub(super) fn into_traces(mut self) -> (Vec<LogLine>, PayloadReads) {
        let printed = String::from_utf8_lossy(&self.used.printed);
        let lines = printed.lines().filter(|line| !line.trim().is_empty());
        self.used.log.extend(lines.map(|line| LogLine {
            level: "stderr".to_owned(),
            message: line.to_owned(),
        }));
        self.used.log.truncate(LINES);
        (self.used.log, self.used.payload_reads)
    }

    /// Logs output to stdout or stderr, up to the log's limit.
    pub(super) fn print(&mut self, bytes: &[u8]) -> wasmtime::Result<()> {
        self.spend(bytes.len())?;
        let kept = bytes.len().min(self.limits.log - self.used.logged);
        self.used.logged += kept;
        self.used.printed.extend(bytes.iter().take(kept));
        Ok(())
    }

    /// The failure's random number, and the index of the next block of bytes derived from it.
    pub(super) fn next_random_block(&mut self) -> wasmtime::Result<(f64, u64)> {
        self.spend(32)?;
        self.used.random_blocks += 1;
        Ok((self.random, self.used.random_blocks))
    }

    fn spend(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.used.spent = self.used.spent.saturating_add(CALL).saturating_add(bytes);
        if self.used.spent > self.limits.payload {
            bail!(
                "moved more than {} bytes in calls to the host",
                self.limits.payload
            );
        }
        Ok(())
    }
}

impl types::Host for Host {}

impl default_classifier::Host for Host {
    fn classify(&mut self, error: types::Error) -> wasmtime::Result<types::ErrorClass> {
        let details = error.details.iter();
        let details: usize = details.map(|(name, value)| name.len() + value.len()).sum();
        self.spend(error.code.len() + error.message.len() + details)?;
        Ok((&fallback::class_of(&error.code, error.status)).into())
    }
}

impl log::Host for Host {
    fn log(&mut self, level: log::Level, mut message: String) -> wasmtime::Result<()> {
        self.spend(message.len())?;
        backstop_core::text::cut(&mut message, self.limits.log - self.used.logged);
        if message.is_empty() || self.used.log.len() >= LINES {
            return Ok(());
        }
        self.used.logged += message.len();
        let level = match level {
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warn => "warn",
            log::Level::Error => "error",
        };
        self.used.log.push(LogLine {
            level: level.to_owned(),
            message,
        });
        Ok(())
    }
}

impl payload::Host for Host {
    fn get(&mut self, pointer: String) -> wasmtime::Result<Option<String>> {
        self.spend(READ + pointer.len())?;
        let found = self.used.lookups.get(&self.payload, &pointer)?;
        if !self.payload.knows(&pointer) {
            self.used.payload_reads.add_unknown(&pointer);
        }
        self.used.payload_reads.add(pointer, found.as_deref());
        self.spend(found.as_ref().map_or(0, String::len))?;
        Ok(found)
    }
}
