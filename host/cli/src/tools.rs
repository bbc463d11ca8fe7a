//! What the page of a host does by means of this command: policies are loaded, recorded failures replayed, and the lives of messages read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::clock;
use backstop_core::decision::Bounds;
use backstop_core::settings::Settings;
use backstop_core::text::{chain, one_line};
use backstop_engine::{Policy, builtin};
use backstop_host::admin::{Replayed, Tools, Tried};
use backstop_records::{Destination, files_of};
use backstop_workbench::chart::{DelaysChart, svg};
use backstop_workbench::default_threads;
use backstop_workbench::replay::{Candidate, Lines, QueuePolicy, Replay};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::dlq::OwnRuns;
use crate::error::CommandError;
use crate::{policy, why};

/// The most bytes of records that are read for the page: those of the newest files.
const RECORDS_BYTES: u64 = 512 << 20;

/// How many bytes of records there are for each byte of a file that gzip has compressed, about.
const PACKED: u64 = 15;

/// How long records are replayed for the page.
const REPLAYED_FOR: Duration = Duration::from_secs(60);

/// How many samples of each difference a replay has.
const SAMPLES: usize = 1;

/// The tools of a host with these records.
#[derive(Debug)]
pub(crate) struct OwnTools {
    /// The file into which it writes decision records.
    records: Option<PathBuf>,
    runs: OwnRuns,
}

impl OwnTools {
    /// Those of a host that writes its records there.
    pub(crate) fn of(records: Option<&Destination>, runs: OwnRuns) -> Self {
        let file = match records {
            Some(Destination::File { path, .. }) => Some(path.clone()),
            Some(Destination::Stdout) | None => None,
        };
        Self {
            records: file,
            runs,
        }
    }

    /// The files of the records, the newest last, and what was left out of them. Those beyond the budget are left out, and all older ones.
    fn files(&self) -> Option<(Vec<PathBuf>, Option<String>)> {
        let file = self.records.as_ref()?;
        let mut budget = RECORDS_BYTES;
        let (mut files, mut left) = (Vec::new(), 0);
        let all = files_of(file);
        let there = all.into_iter().rev().filter_map(|path| {
            let metadata = std::fs::metadata(&path).ok()?;
            metadata.is_file().then_some((path, metadata.len()))
        });
        for (path, length) in there {
            let is_packed = path.extension().is_some_and(|it| it == "gz");
            let length = if is_packed {
                length.saturating_mul(PACKED)
            } else {
                length
            };
            match budget.checked_sub(length).filter(|_| left == 0) {
                Some(rest) => {
                    budget = rest;
                    files.push(path);
                }
                None => left += 1,
            }
        }
        files.reverse();
        let left_out = (left > 0).then(|| {
            format!(
                "{left} files of records were left out, because the page reads about {} MiB of the newest: the command reads them all, and `decisions.rotate-size` keeps files small",
                RECORDS_BYTES >> 20
            )
        });
        Some((files, left_out))
    }
}

#[async_trait]
impl Tools for OwnTools {
    fn built_in(&self) -> Vec<&'static str> {
        builtin::names().collect()
    }

    async fn load(&self, tried: Tried) -> Result<Policy, String> {
        on_a_thread(move || load(tried)).await
    }

    async fn replay(
        &self,
        queue: &str,
        policy: Policy,
        bounds: Bounds,
    ) -> Result<Option<Replayed>, String> {
        let Some((files, left_out)) = self.files() else {
            return Ok(None);
        };
        let queue = queue.to_owned();
        let replayed = on_a_thread(move || replay(files, &queue, policy, bounds)).await?;
        let left_out = [left_out, replayed.left_out];
        let left_out: Vec<_> = left_out.into_iter().flatten().collect();
        Ok(Some(Replayed {
            left_out: (!left_out.is_empty()).then(|| left_out.join("; ")),
            ..replayed
        }))
    }

    async fn story(&self, id: &str) -> Result<(bool, Value), String> {
        let has_records = self.records.is_some();
        let (files, left_out) = self.files().unwrap_or_default();
        let place = self.runs.folder();
        let no_runs = place.is_none().then(|| {
            "runs that are kept in a bucket are not read for the page: the command reads them with --runs".to_owned()
        });
        let id = id.to_owned();
        on_a_thread(move || {
            let story = why::story(&id, files, place.as_deref());
            let mut story = story.map_err(|error| text(&error))?;
            let more = left_out.into_iter().chain(no_runs);
            if let Some(gaps) = story.get_mut("gaps").and_then(Value::as_array_mut) {
                gaps.extend(more.map(Value::from));
            }
            Ok((has_records, story))
        })
        .await
    }
}

/// Loads what somebody wants to try. A name is that of a built-in policy, and no path or address of this machine.
fn load(tried: Tried) -> Result<Policy, String> {
    match tried {
        Tried::Builtin { name, settings } => {
            if !builtin::names().any(|known| known == name) {
                return Err(format!("there is no built-in policy `{}`", one_line(&name)));
            }
            policy::load(&name, &Settings::from(settings)).map_err(|error| text(&error))
        }
        Tried::File {
            name,
            bytes,
            settings,
        } => {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            // The name is for people only.
            let is_text = !bytes.starts_with(b"\0asm");
            let end = if is_text { "policy.wat" } else { "policy.wasm" };
            let path = folder.path().join(end);
            std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
            let loaded = policy::load(&path.display().to_string(), &Settings::from(settings));
            loaded.map_err(|error| {
                let folder = format!("{}/", folder.path().display());
                format!("{}: {}", one_line(&name), text(&error).replace(&folder, ""))
            })
        }
    }
}

fn replay(
    files: Vec<PathBuf>,
    queue: &str,
    policy: Policy,
    bounds: Bounds,
) -> Result<Replayed, String> {
    let title = policy.title();
    let policies = BTreeMap::from([(queue.to_owned(), QueuePolicy { policy, bounds })]);
    let new = Candidate::Queues(policies);
    let replay = Replay {
        new: &new,
        old: None,
        queue: Some(queue),
        samples: SAMPLES,
    };
    // The other processors are for the queue.
    let threads = (default_threads() / 2).max(1);
    let began = clock::instant();
    let is_in_time = |_| began.elapsed() < REPLAYED_FOR;
    let replayed = replay.run_while(&mut Lines::of(files), threads, is_in_time);
    let (report, is_whole) = replayed.map_err(|error| chain(&error))?;
    let left_out = (!is_whole).then(|| {
        let seconds = REPLAYED_FOR.as_secs();
        format!("after {seconds} s, the other records were left out")
    });
    let about = format!("{} failures of {}", report.records, one_line(queue));
    let chart = DelaysChart {
        about: &about,
        sides: [
            ("recorded", &report.old_delays),
            (title.as_str(), &report.new_delays),
        ],
    };
    Ok(Replayed {
        chart: svg(&chart).map_err(|error| chain(&error))?,
        report: serde_json::to_value(&report).map_err(|error| error.to_string())?,
        left_out,
    })
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

fn text(error: &CommandError) -> String {
    error.to_string()
}
