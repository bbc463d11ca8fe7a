//! Workers of the packages for other languages, next to what their users run today.

use std::path::{Path, PathBuf};

use backstop_tests::backstop::program;
use backstop_tests::npm;
use backstop_tests::python::package;
use tempfile::TempDir;
use tests_benches::{Chapter, Figure, Table, Unit};
use tokio::process::Command;

use crate::plan::{Case, Side};
use crate::table::{Figures, Results};
use crate::work::Load;

/// A language that has a package with the host in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

impl Language {
    pub(crate) const ALL: [Self; 2] = [Self::Python, Self::Node];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Node => "Node.js",
        }
    }
}

pub(crate) const TITLE: &str = "Workers in other languages";

pub(crate) const ABOUT: &str = "As in the chapter about consuming, with workers in Python and in Node.js. In Python: Backstop's module with a function, which runs in threads, and with a coroutine function, at the defaults of 10 polls and 100 messages in flight; beside loops of boto3 in 16 threads, each of which receives ten messages, works on one after the other and deletes them; and beside aiobotocore, whose client aioboto3 hands out, with ten loops, 100 messages at once, and deletes in batches. In Node.js: Backstop's package with an async function, at the same defaults, beside `sqs-consumer` with `handleMessageBatch`, which works on the ten messages of a batch at the same time. The work of a message is nothing, 2 ms of waiting, or 1 ms of processor time. The rate and the processor time of Backstop's are counted from its first message until its metrics say that everything is settled. The import is that of the library; until it starts, the others have made their client, and Backstop has loaded its policy from its cache and received its first message. Three rounds.";

/// Rounds of these cases.
pub(crate) const ROUNDS: usize = 3;

/// The defaults.
const POLLS: usize = 10;
const IN_FLIGHT: usize = 100;

/// The sides of a language: ours first, each with the ones that it is compared with.
fn sides(language: Language) -> Vec<Case> {
    let in_flight = IN_FLIGHT;
    match language {
        Language::Python => vec![
            Case::new(Side::PythonFunction { in_flight }, POLLS),
            Case::new(Side::PythonCoroutine { in_flight }, POLLS),
            Case::new(Side::Boto3, 16),
            Case::new(Side::Aiobotocore { in_flight }, POLLS),
        ],
        Language::Node => vec![
            Case::new(Side::Node { in_flight }, POLLS),
            Case::new(Side::SqsConsumer, 4),
            Case::new(Side::SqsConsumer, 16),
        ],
    }
}

/// All cases of all languages.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for language in Language::ALL {
        for load in Load::ALL {
            let direct = sides(language).into_iter().map(|it| it.of(language, load));
            let direct: Vec<_> = direct.collect();
            for failing in [0, 10] {
                let sides = direct.iter().map(|it| it.failing(failing));
                cases.extend(sides.clone());
                cases.extend(sides.map(Case::behind_latency));
            }
        }
    }
    cases
}

/// Each of ours, divided by each of the others, setting by setting.
pub(crate) fn add_ratios(chapter: &mut Chapter, results: &Results) {
    for language in Language::ALL {
        let of: Vec<_> = results
            .iter()
            .filter(|(case, _)| case.language == Some(language))
            .collect();
        for ours in sides(language).iter().filter(|it| it.side.is_ours()) {
            for theirs in sides(language).iter().filter(|it| !it.side.is_ours()) {
                let title = format!(
                    "{}: {}, beside {}",
                    language.name(),
                    ours.name(),
                    theirs.name()
                );
                let mut table = Table::new(&title)
                    .column("rate", Unit::Times, None)
                    .column("processor time a message", Unit::Times, None)
                    .column("peak memory", Unit::Times, None)
                    .not_drawn();
                for (case, ours) in of.iter().filter(|(case, _)| case.side == ours.side) {
                    let same = of
                        .iter()
                        .find(|(it, _)| it.side == theirs.side && it.table() == case.table());
                    if let Some((_, theirs)) = same {
                        table.ours(case.table(), ratios(ours, theirs));
                    }
                }
                if !table.rows.is_empty() {
                    chapter.add(table);
                }
            }
        }
    }
}

fn ratios(ours: &Figures, theirs: &Figures) -> [Figure; 3] {
    [
        ours.rate.times(theirs.rate),
        ours.processor.times(theirs.processor),
        ours.memory.times(theirs.memory),
    ]
    .map(Figure::exact)
}

/// The packages as they are installed, and the cache of their hosts.
#[derive(Debug)]
pub(crate) struct Packages {
    python: TempDir,
    node: PathBuf,
}

impl Packages {
    pub(crate) fn install() -> Self {
        Self {
            python: package(),
            node: npm::built("node"),
        }
    }

    /// The folder of that for Node.js.
    pub(crate) fn node(&self) -> &Path {
        &self.node
    }

    /// Has a process find them.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let (folder, addon) = (self.python.path(), "libbackstop_node.so");
        command
            .env("PYTHONPATH", folder)
            .env("BACKSTOP_ADDON", program("backstop").with_file_name(addon))
            .env("BACKSTOP_COMMAND", program("backstop"))
            .env("BACKSTOP_CACHE", folder.join("cache"));
    }
}
