//! Tests again whenever the policy or its scenarios change.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use crate::output::{self, eprintln, print};
use anyhow::Context;
use notify::RecursiveMode;
use notify_debouncer_full::{DebounceEventResult, new_debouncer};

use super::target::Target;
use super::{Args, TestsFailed};
use crate::exit::{self, UsageError};
use backstop::policy::DEBOUNCE;

/// Folders of a project whose files are made of others, and its component among them.
const MADE: [&str; 7] = [
    "build",
    "bindings",
    "target",
    "node_modules",
    ".venv",
    ".git",
    "__pycache__",
];

/// Tests, waits for a change, and so on until the process is ended. What can't be tested is told, and waiting goes on.
pub(super) fn run(args: &Args, test: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let target = Target::find(&args.policy, args.scenarios.as_deref())?;
    let watched = Watched::of(&target, args.junit.clone())?;
    let (changes, _watching) = watched.watch()?;
    loop {
        if std::io::stdout().is_terminal() {
            print!("\u{1b}[2J\u{1b}[3J\u{1b}[H");
        }
        match test() {
            Ok(()) => {}
            Err(error) if error.is::<TestsFailed>() => {}
            Err(error) => {
                exit::report(&error);
            }
        }
        if output::has_failed() {
            return Ok(());
        }
        // What changed while the tests ran has been tested in part: it counts.
        eprintln!("waiting for changes in {} (Ctrl-C ends)", watched.title());
        if changes.recv().is_err() {
            anyhow::bail!("watching has ended by itself");
        }
        while changes.try_recv().is_ok() {}
    }
}

/// What to look at.
#[derive(Debug, Clone)]
struct Watched {
    /// Files, by their folders and names: an editor that replaces a file would slip away from a watch on it.
    files: BTreeSet<PathBuf>,
    /// A policy's folder, without what is made in it.
    project: Option<PathBuf>,
    /// The report, which each round of tests writes, wherever it is.
    report: Option<PathBuf>,
}

impl Watched {
    fn of(target: &Target, report: Option<PathBuf>) -> Result<Self, UsageError> {
        let scenarios = target.scenarios.clone().or(target.expected_at.clone());
        let watched = Self {
            files: target.file.clone().into_iter().chain(scenarios).collect(),
            project: target.folder.clone(),
            report,
        };
        if watched.files.is_empty() {
            return Err(UsageError(
                "there is nothing to watch: a built-in policy never changes; name its scenarios with --scenarios".to_owned(),
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

    /// Whether this file's change matters.
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
                matches!(part, Component::Normal(name) if MADE.iter().any(|made| name == *made))
            })
        };
        if self.report.iter().any(same) {
            return false;
        }
        self.files.iter().any(same) || self.project.as_ref().is_some_and(is_source)
    }

    /// Sends on every change that matters for as long as the second is kept.
    fn watch(&self) -> anyhow::Result<(Receiver<()>, impl Sized)> {
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

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_write_themselves_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let watched = Watched {
            files: BTreeSet::from([place("scenarios.toml")]),
            project: Some(folder.path().to_owned()),
            report: Some(place("report.xml")),
        };
        for name in ["policy.c", "scenarios.toml", "src/rules.js", "other.xml"] {
            assert!(watched.has(&place(name)), "{name}");
        }
        for name in ["report.xml", "build/raw.wasm", "bindings/entry.js"] {
            assert!(!watched.has(&place(name)), "{name}");
        }
    }
}
