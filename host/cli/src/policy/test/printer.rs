//! Prints the outcomes of tests, for people or as JSON.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use backstop_core::clock;
use backstop_core::text::one_line;
use backstop_versions::{Location, Source};
use backstop_workbench::outcome::{Kind, Outcome};
use backstop_workbench::scenario::Suite;
use serde_json::json;

use super::describe::{CROSS, Rerun, lines};
use super::target::Target;
use crate::output::{self, eprint, println};

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();

/// Faster work shows no progress.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// From this size, in bytes, compiling a file takes long enough to be announced.
const LARGE_FILE: u64 = 512 << 10;

/// The time between two updates of the progress line.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Prints each test as it ends.
pub(super) struct Printer<'a> {
    json: bool,
    rerun: Rerun<'a>,
    file: String,
    kind: Option<Kind>,
    started: Instant,
    progress_shown: Option<Instant>,
    policy: String,
    seed: u64,
}

impl<'a> Printer<'a> {
    pub(super) fn start(json: bool, suite: &Suite, rerun: Rerun<'a>) -> Self {
        Self {
            json,
            rerun,
            file: suite.path.display().to_string(),
            kind: None,
            started: clock::instant(),
            progress_shown: None,
            policy: String::new(),
            seed: 0,
        }
    }

    /// Announces that a large file is being compiled, on a terminal.
    pub(super) fn compiling(&mut self, source: &Source) {
        let Location::Path(path) = &source.location else {
            return;
        };
        let size = path.metadata().map_or(0, |file| file.len());
        if size > LARGE_FILE && std::io::stderr().is_terminal() {
            self.progress_shown = Some(clock::instant());
            eprint!("{DIM}… compiling {}{DIM:#}", path.display());
        }
    }

    pub(super) fn title(&mut self, policy: &str, target: &Target, seed: u64) {
        self.end_progress();
        self.policy = policy.to_owned();
        self.seed = seed;
        if self.json {
            return;
        }
        println!("policy     {policy}");
        match (&target.scenarios, &target.expected_at) {
            (Some(path), _) => println!("scenarios  {}", path.display()),
            (None, Some(path)) => println!("scenarios  none: {} does not exist", path.display()),
            (None, None) => println!("scenarios  none: name a file with --scenarios"),
        }
        println!("seed       {seed}");
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        self.end_progress();
        if self.json {
            match serde_json::to_string(outcome) {
                Ok(line) => println!("{line}"),
                Err(error) => tracing::error!(%error, "an outcome can't be written as JSON"),
            }
            return;
        }
        if self.kind != Some(outcome.kind) {
            self.kind = Some(outcome.kind);
            println!();
        }
        let name = one_line(&outcome.name);
        let about = match (&outcome.about, outcome.line) {
            (about, _) if !about.is_empty() => format!(": {about}"),
            (_, Some(line)) if !outcome.passed => format!("  {}:{line}", self.file),
            _ => String::new(),
        };
        if outcome.passed {
            println!("{GREEN}✓{GREEN:#} {name}{DIM}{about}{DIM:#}")
        } else {
            println!("{RED}{CROSS}{RED:#} {name}{DIM}{about}{DIM:#}")
        }
        for warning in &outcome.warnings {
            println!("  {YELLOW}warning:{YELLOW:#} {}", one_line(warning));
        }
        if !outcome.passed {
            for line in lines(outcome, &self.rerun) {
                match line.strip_prefix(CROSS) {
                    Some(rest) => println!("    {RED}{CROSS}{rest}{RED:#}"),
                    None if line.is_empty() => println!(),
                    None => println!("    {line}"),
                }
            }
        }
    }

    pub(super) fn summary(&mut self, outcomes: &[Outcome], took: Duration) {
        self.end_progress();
        let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
        let passed = outcomes.len() - failed;
        let seconds = took.as_secs_f64();
        if self.json {
            let summary = json!({"summary": {
                "policy": self.policy,
                "seed": self.seed,
                "passed": passed,
                "failed": failed,
                "seconds": seconds,
            }});
            println!("{summary}");
            return;
        }
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {RED}{failed} failed{RED:#}"),
        };
        println!("\n{GREEN}{passed} passed{GREEN:#}{failed} in {seconds:.2}s");
    }

    /// Updates the progress line, on a terminal and after a moment.
    pub(super) fn progress(&mut self, done: u32, of: u32) {
        let is_due = match self.progress_shown {
            Some(shown) => shown.elapsed() > PROGRESS_INTERVAL,
            None => self.started.elapsed() > SHOW_PROGRESS_AFTER,
        };
        if is_due && std::io::stderr().is_terminal() {
            self.progress_shown = Some(clock::instant());
            output::control_stderr("\r");
            eprint!("{DIM}… {done} of up to {of} generated failures{DIM:#}");
            output::control_stderr("\u{1b}[K");
            let _ = std::io::stderr().flush();
        }
    }

    fn end_progress(&mut self) {
        if self.progress_shown.take().is_some() {
            output::control_stderr("\r\u{1b}[K");
        }
    }
}
