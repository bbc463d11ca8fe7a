//! What the command prints of its tests: for people, or as JSON.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::{eprint, println};
use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::describe::{Again, CROSS, lines};
use super::target::Target;
use backstop::policy::{Location, Source};
use backstop_core::clock;
use backstop_core::fallback;
use backstop_core::text::one_line;
use backstop_workbench::outcome::{Kind, Outcome};
use backstop_workbench::preset::PRESETS;
use backstop_workbench::scenario::Suite;

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();

/// How long nothing may be seen of the work.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// A file of this many bytes takes longer than a moment to compile.
const LARGE: u64 = 512 << 10;

/// How often a line of progress is changed.
const STEADY: Duration = Duration::from_millis(100);

/// Prints tests as they end.
pub(super) struct Shown<'a> {
    json: bool,
    again: Again<'a>,
    file: String,
    kind: Option<Kind>,
    started: Instant,
    told: Option<Instant>,
    policy: String,
    seed: u64,
}

impl<'a> Shown<'a> {
    pub(super) fn start(json: bool, suite: &Suite, again: Again<'a>) -> Self {
        Self {
            json,
            again,
            file: suite.path.display().to_string(),
            kind: None,
            started: clock::instant(),
            told: None,
            policy: String::new(),
            seed: 0,
        }
    }

    /// Tells that a large file is being compiled, if somebody watches.
    pub(super) fn compiling(&mut self, source: &Source) {
        let Location::Path(path) = &source.location else {
            return;
        };
        let size = path.metadata().map_or(0, |file| file.len());
        if size > LARGE && std::io::stderr().is_terminal() {
            self.told = Some(clock::instant());
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
            (None, Some(path)) => println!("scenarios  none: there is no {}", path.display()),
            (None, None) => println!("scenarios  none: name a file with --scenarios"),
        }
        println!("seed       {seed}");
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        self.end_progress();
        if self.json {
            match serde_json::to_string(outcome) {
                Ok(line) => println!("{line}"),
                Err(error) => tracing::error!(%error, "an outcome that is no JSON"),
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
        match outcome.passed {
            true => println!("{GREEN}✓{GREEN:#} {name}{DIM}{about}{DIM:#}"),
            false => println!("{RED}{CROSS}{RED:#} {name}{DIM}{about}{DIM:#}"),
        }
        for warning in &outcome.warnings {
            println!("  {YELLOW}warning:{YELLOW:#} {}", one_line(warning));
        }
        if !outcome.passed {
            for line in lines(outcome, &self.again) {
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

    /// Tells how far it is, once that takes longer than a moment and if somebody watches.
    pub(super) fn progress(&mut self, done: u32, of: u32) {
        let is_due = match self.told {
            Some(told) => told.elapsed() > STEADY,
            None => self.started.elapsed() > PROGRESS_DELAY,
        };
        if is_due && std::io::stderr().is_terminal() {
            self.told = Some(clock::instant());
            eprint!("\r{DIM}… {done} of up to {of} generated failures{DIM:#}\u{1b}[K");
            let _ = std::io::stderr().flush();
        }
    }

    fn end_progress(&mut self) {
        if self.told.take().is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}

/// The failures that scenarios can name, with their classes by the default classification.
pub(super) fn presets(as_json: bool) {
    for preset in PRESETS {
        let error = preset.error();
        let class = fallback::class(&error);
        if as_json {
            let line = json!({
                "preset": preset.name, "about": preset.about, "error": error, "class": class,
            });
            println!("{line}");
            continue;
        }
        let class = class.to_string();
        println!(
            "{:<20}  {:<38}  {class:<9}  {}",
            preset.name, error.code, preset.about
        );
    }
}
