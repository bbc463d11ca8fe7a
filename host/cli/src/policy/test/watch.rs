//! `--watch`: runs the tests again after every change of the policy or its scenarios.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use backstop_versions::DEBOUNCE;
use notify::RecursiveMode;
use notify_debouncer_full::{DebounceEventResult, new_debouncer};

use super::args::Args;
use super::target::Target;
use crate::causes;
use crate::error::{Context, Exit, Result};
use crate::policy::folder_of;
use crate::terminal::{eprintln, output};

/// The folders of a project with generated files.
const GENERATED: [&str; 7] = [
    "build",
    "bindings",
    "target",
    "node_modules",
    ".venv",
    ".git",
    "__pycache__",
];

/// Runs the tests, waits for a change, and repeats until the process is stopped. Errors are reported and do not stop it.
pub(super) fn run(args: &Args, test: impl Fn() -> Result<()>) -> Result<()> {
    let target = Target::find(&args.policy, args.scenarios.as_deref())?;
    let watched = Watched::of(&target, args.junit.clone())?;
    let (changes, _watching) = watched.watch()?;
    loop {
        if std::io::stdout().is_terminal() {
            output::control("\u{1b}[2J\u{1b}[3J\u{1b}[H");
        }
        match test() {
            // A failed test was printed with its outcome.
            Err(error) if error.exit != Exit::TestsFailed => {
                causes::report(&error);
            }
            Ok(()) | Err(_) => {}
        }
        if output::has_failed() {
            return Ok(());
        }
        // Changes during the tests count: they may have been tested in part.
        eprintln!("waiting for changes in {} (Ctrl-C stops)", watched.title());
        if changes.recv().is_err() {
            return Err(Exit::Unexpected.because("the file watcher stopped unexpectedly"));
        }
        while changes.try_recv().is_ok() {}
    }
}

/// What to watch.
#[derive(Debug, Clone)]
struct Watched {
    /// Files. Their folders are watched, since editors replace files.
    files: BTreeSet<PathBuf>,
    /// A policy's folder, except for its generated files.
    project: Option<PathBuf>,
    /// The report. It is ignored: every run writes it.
    report: Option<PathBuf>,
}

impl Watched {
    fn of(target: &Target, report: Option<PathBuf>) -> Result<Self> {
        let scenarios = target.scenarios.clone().or(target.expected_at.clone());
        let watched = Self {
            files: target.file.clone().into_iter().chain(scenarios).collect(),
            project: target.folder.clone(),
            report,
        };
        if watched.files.is_empty() {
            return Err(Exit::Usage.because(
                "there is nothing to watch: a built-in policy never changes; name a file of scenarios with --scenarios",
            ));
        }
        Ok(watched)
    }

    fn title(&self) -> String {
        match &self.project {
            Some(folder) => folder.display().to_string(),
            None => {
                let files = self.files.iter().map(|file| file.display().to_string());
                files.collect::<Vec<_>>().join(" and ")
            }
        }
    }

    /// Whether a change of this file matters.
    fn has(&self, changed: &Path) -> bool {
        let same = |file: &PathBuf| {
            file.file_name() == changed.file_name()
                && folder_of(file).canonicalize().ok() == folder_of(changed).canonicalize().ok()
        };
        let is_source = |project: &PathBuf| {
            let absolute = |path: &Path| std::path::absolute(path).unwrap_or(path.to_owned());
            let changed = absolute(changed);
            let Ok(within) = changed.strip_prefix(absolute(project)) else {
                return false;
            };
            let mut parts = within.components();
            !parts.any(|part| {
                matches!(part, Component::Normal(name) if GENERATED.iter().any(|generated| name == *generated))
            })
        };
        if self.report.iter().any(same) {
            return false;
        }
        self.files.iter().any(same) || self.project.as_ref().is_some_and(is_source)
    }

    /// Sends a message for every change that matters, until the second value is dropped.
    fn watch(&self) -> Result<(Receiver<()>, impl Sized)> {
        let (send, receive) = mpsc::channel();
        let watched = self.clone();
        let on_change = move |events: DebounceEventResult| {
            let matters = match &events {
                Ok(events) => events
                    .iter()
                    .filter(|event| !event.kind.is_access())
                    .flat_map(|event| &event.paths)
                    .any(|path| watched.has(path)),
                // Some changes may have been missed.
                Err(_) => true,
            };
            if matters {
                let _ = send.send(());
            }
        };
        let mut debouncer =
            new_debouncer(DEBOUNCE, None, on_change).context("can't watch files")?;
        let mut folders: BTreeSet<&Path> = self.files.iter().map(|file| folder_of(file)).collect();
        if let Some(project) = &self.project {
            folders.retain(|folder| !folder.starts_with(project));
            debouncer
                .watch(project, RecursiveMode::Recursive)
                .with_context(|| format!("can't watch {}", project.display()))?;
        }
        for folder in folders {
            debouncer
                .watch(folder, RecursiveMode::NonRecursive)
                .with_context(|| format!("can't watch {}", folder.display()))?;
        }
        Ok((receive, debouncer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_tests_write_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let watched = Watched {
            files: BTreeSet::from([path("scenarios.toml")]),
            project: Some(folder.path().to_owned()),
            report: Some(path("report.xml")),
        };
        for name in ["policy.c", "scenarios.toml", "src/rules.js", "other.xml"] {
            assert!(watched.has(&path(name)), "{name}");
        }
        for name in ["report.xml", "build/raw.wasm", "bindings/entry.js"] {
            assert!(!watched.has(&path(name)), "{name}");
        }
    }
}
