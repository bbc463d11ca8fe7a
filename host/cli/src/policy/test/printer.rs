//! Prints the outcomes of tests, and the failures that scenarios and flags can name, for people or as JSON.

use std::time::{Duration, Instant};

use backstop_core::text::one_line;
use backstop_core::{clock, fallback};
use backstop_versions::{Location, Source};
use backstop_workbench::outcome::{Kind, Outcome};
use backstop_workbench::preset::PRESETS;
use backstop_workbench::scenario::Suite;
use serde_json::json;

use super::args::Args;
use super::describe::{CROSS, lines};
use super::target::Target;
use crate::terminal::style::{DIM, GREEN, RED, YELLOW};
use crate::terminal::{Progress, println};

/// Faster work shows no progress.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// From this size, in bytes, compiling a file takes long enough to be announced.
const LARGE_FILE: u64 = 512 << 10;

/// Prints each test as it ends.
pub(super) struct Printer<'a> {
    args: &'a Args,
    file: String,
    kind: Option<Kind>,
    started: Instant,
    progress: Option<Progress>,
    policy: String,
}

impl<'a> Printer<'a> {
    pub(super) fn start(args: &'a Args, suite: &Suite) -> Self {
        Self {
            args,
            file: suite.path.display().to_string(),
            kind: None,
            started: clock::instant(),
            progress: None,
            policy: String::new(),
        }
    }

    /// Announces that a large file is being compiled.
    pub(super) fn compiling(&mut self, source: &Source) {
        let Location::Path(path) = &source.location else {
            return;
        };
        let size = path.metadata().map_or(0, |file| file.len());
        if size > LARGE_FILE {
            let progress = self.progress.insert(Progress::text(None, 0));
            progress.say(format!("compiling {}", path.display()));
        }
    }

    pub(super) fn title(&mut self, policy: &str, target: &Target) {
        self.progress = None;
        self.policy = policy.to_owned();
        if self.args.json {
            return;
        }
        println!("policy     {policy}");
        match (&target.scenarios, &target.expected_at) {
            (Some(path), _) => println!("scenarios  {}", path.display()),
            (None, Some(path)) => println!("scenarios  none: {} does not exist", path.display()),
            (None, None) => println!("scenarios  none: name a file with --scenarios"),
        }
        println!("seed       {}", self.args.seed);
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        self.progress = None;
        if self.args.json {
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
            for line in lines(outcome, self.args) {
                match line.strip_prefix(CROSS) {
                    Some(rest) => println!("    {RED}{CROSS}{rest}{RED:#}"),
                    None if line.is_empty() => println!(),
                    None => println!("    {line}"),
                }
            }
        }
    }

    pub(super) fn summary(&mut self, outcomes: &[Outcome], took: Duration) {
        self.progress = None;
        let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
        let passed = outcomes.len() - failed;
        let seconds = took.as_secs_f64();
        if self.args.json {
            let summary = json!({"summary": {
                "policy": self.policy,
                "seed": self.args.seed,
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

    /// Shows how many failures were generated, after a moment.
    pub(super) fn progress(&mut self, done: u32, of: u32) {
        if self.started.elapsed() > SHOW_PROGRESS_AFTER {
            let progress = self.progress.get_or_insert_with(|| Progress::text(None, 0));
            progress.say(format!("{done} of up to {of} generated failures"));
        }
    }
}

/// Prints the named failures, each with its class by the default classification.
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
