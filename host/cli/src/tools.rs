//! What the page of a host does by means of this command: policies are loaded, recorded failures replayed, and the lives of messages read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
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

use crate::error::CommandError;
use crate::{policy, why};

/// The most bytes of records that are read for the page: those of the newest files.
const RECORDS_BYTES: u64 = 512 << 20;

/// How many samples of each difference a replay has.
const SAMPLES: usize = 1;

/// The tools of a host with these records.
#[derive(Debug)]
pub(crate) struct OwnTools {
    /// The file into which it writes decision records.
    records: Option<PathBuf>,
}

impl OwnTools {
    /// Those of a host that writes its records there.
    pub(crate) fn of(records: Option<&Destination>) -> Self {
        let file = match records {
            Some(Destination::File { path, .. }) => Some(path.clone()),
            Some(Destination::Stdout) | None => None,
        };
        Self { records: file }
    }

    /// The files of the records, the newest last, and what was left out of them.
    fn files(&self) -> Option<(Vec<PathBuf>, Option<String>)> {
        let file = self.records.as_ref()?;
        let mut bytes = 0;
        let (mut files, mut left) = (Vec::new(), 0);
        let all = files_of(file);
        let there = all.into_iter().rev().filter_map(|path| {
            let metadata = std::fs::metadata(&path).ok()?;
            metadata.is_file().then_some((path, metadata.len()))
        });
        for (path, length) in there {
            bytes += length;
            if bytes > RECORDS_BYTES && !files.is_empty() {
                left += 1;
            } else {
                files.push(path);
            }
        }
        files.reverse();
        let left_out = (left > 0).then(|| {
            format!("{left} older files of records were left out: the command reads them all")
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
        Ok(Some(Replayed {
            left_out,
            ..replayed
        }))
    }

    async fn story(&self, id: &str) -> Result<Option<Value>, String> {
        let Some((files, left_out)) = self.files() else {
            return Ok(None);
        };
        let id = id.to_owned();
        on_a_thread(move || {
            let mut story = why::story(&id, files).map_err(|error| text(&error))?;
            if let (Some(left_out), Some(gaps)) = (left_out, story.get_mut("gaps")) {
                gaps.as_array_mut()
                    .into_iter()
                    .for_each(|gaps| gaps.push(left_out.clone().into()));
            }
            Ok(Some(story))
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
    let report = replay.run(&mut Lines::of(files), default_threads(), |_| {});
    let report = report.map_err(|error| chain(&error))?;
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
        left_out: None,
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
