//! What another policy would do: files that somebody has sent, and what was found out about them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use backstop_core::clock;
use backstop_core::decision::Bounds;
use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_core::text::{cut, one_line};
use backstop_engine::Policy;
use tokio::task::spawn_blocking;

use super::answer::Refused;
use super::tools::{Replayed, Tools, Tried};
use crate::waiting::{Supposed, Waiting};

/// The largest file of a policy, in bytes.
pub(super) const FILE_BYTES: usize = 32 << 20;

/// How many files and how many findings are kept: the last ones.
const FILES: usize = 2;
const FOUND: usize = 8;

/// The most bytes of a file's name.
const NAME_BYTES: usize = 100;

/// A file that somebody has sent.
#[derive(Debug, Clone)]
struct File {
    id: String,
    name: String,
    bytes: Arc<Vec<u8>>,
}

/// A question, and what was found out.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) by: String,
    pub(super) at: Timestamp,
    /// What was asked for, in words.
    pub(super) asked: String,
    /// `None` while it is under way.
    pub(super) found: Option<Result<Arc<Finding>, String>>,
}

/// What was found out.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) policy: Policy,
    /// What waits, if anything is remembered.
    pub(super) waiting: Option<Supposed>,
    /// The recorded failures, or why they were not replayed.
    pub(super) replayed: Result<Option<Replayed>, String>,
}

/// What somebody asks.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) queue: String,
    /// The name of a built-in policy, if no file is meant.
    pub(super) built_in: Option<String>,
    /// The id of a file.
    pub(super) file: Option<String>,
    pub(super) settings: Vec<(String, String)>,
}

/// The files and the questions of a host.
#[derive(Debug, Default)]
pub(super) struct WhatIfs {
    files: Mutex<VecDeque<File>>,
    questions: Mutex<VecDeque<Question>>,
}

impl WhatIfs {
    /// Keeps a file. Returns its id.
    pub(super) fn keep(&self, name: &str, bytes: Vec<u8>) -> String {
        let mut name = one_line(name.trim());
        cut(&mut name, NAME_BYTES);
        let file = File {
            id: new_id(),
            name,
            bytes: Arc::new(bytes),
        };
        let id = file.id.clone();
        let mut files = lock(&self.files);
        if files.len() >= FILES {
            files.pop_front();
        }
        files.push_back(file);
        id
    }

    /// The question with this id.
    pub(super) fn question(&self, id: &str) -> Option<Question> {
        let questions = lock(&self.questions);
        questions.iter().find(|it| it.id == id).cloned()
    }

    /// The policy that a question was about, once it is loaded.
    pub(super) fn policy(&self, id: &str) -> Option<Policy> {
        match self.question(id)?.found? {
            Ok(finding) => Some(finding.policy.clone()),
            Err(_) => None,
        }
    }

    fn tried(&self, asked: &Asked) -> Result<(Tried, String), Refused> {
        let settings = asked.settings.clone();
        let shown = settings
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        let shown: String = shown.collect();
        match (&asked.built_in, &asked.file) {
            (None, Some(id)) => {
                let file = lock(&self.files).iter().find(|it| it.id == *id).cloned();
                let file = file.ok_or_else(|| {
                    Refused::not_found("the file is forgotten by now: choose it again")
                })?;
                let asked = format!("{}{shown}", file.name);
                let (name, bytes) = (file.name, file.bytes.to_vec());
                Ok((
                    Tried::File {
                        name,
                        bytes,
                        settings,
                    },
                    asked,
                ))
            }
            (Some(name), None) => {
                let asked = format!("{name}{shown}");
                let name = name.clone();
                Ok((Tried::Builtin { name, settings }, asked))
            }
            (Some(_), Some(_)) | (None, None) => Err(Refused::invalid(
                "expected a built-in policy or a file, and not both",
            )),
        }
    }

    /// Begins to find out. Returns the id of the question. One at a time: it takes all processors.
    pub(super) fn ask(
        self: &Arc<Self>,
        tools: Arc<dyn Tools>,
        asked: &Asked,
        (waiting, bounds): (Option<Arc<Waiting>>, Bounds),
        by: &str,
    ) -> Result<String, Refused> {
        let (tried, words) = self.tried(asked)?;
        let question = Question {
            id: new_id(),
            queue: asked.queue.clone(),
            by: by.to_owned(),
            at: clock::now(),
            asked: one_line(&words),
            found: None,
        };
        let id = question.id.clone();
        {
            let mut questions = lock(&self.questions);
            if let Some(other) = questions.iter().find(|it| it.found.is_none()) {
                return Err(Refused::unavailable(format!(
                    "another question is under way, of {}: try again in a moment",
                    other.by
                )));
            }
            if questions.len() >= FOUND {
                questions.pop_front();
            }
            questions.push_back(question);
        }
        let (this, queue, of) = (Arc::clone(self), asked.queue.clone(), id.clone());
        tokio::spawn(async move {
            // A task of its own: a panic of it is an answer, too.
            let finding = tokio::spawn(find(tools, tried, queue, waiting, bounds)).await;
            let finding = finding.unwrap_or_else(|error| Err(error.to_string()));
            let mut questions = lock(&this.questions);
            if let Some(question) = questions.iter_mut().find(|it| it.id == of) {
                question.found = Some(finding.map(Arc::new));
            }
        });
        Ok(id)
    }
}

async fn find(
    tools: Arc<dyn Tools>,
    tried: Tried,
    queue: String,
    waiting: Option<Arc<Waiting>>,
    bounds: Bounds,
) -> Result<Finding, String> {
    let policy = tools.load(tried).await?;
    let waiting = match waiting {
        Some(waiting) => {
            let policy = Arc::new(policy.clone());
            let supposed = spawn_blocking(move || waiting.suppose(&policy)).await;
            Some(supposed.map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let replayed = tools.replay(&queue, policy.clone(), bounds).await;
    Ok(Finding {
        policy,
        waiting,
        replayed,
    })
}

fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_files_are_kept_and_no_more() {
        let what_ifs = WhatIfs::default();
        let ids = ["a.wasm", "b.wasm", "c\u{202e}.wasm"].map(|name| what_ifs.keep(name, vec![0]));
        let asked = |file: Option<&String>, built_in: Option<&str>| Asked {
            queue: "orders".to_owned(),
            built_in: built_in.map(str::to_owned),
            file: file.cloned(),
            settings: vec![("base".to_owned(), "2s".to_owned())],
        };
        assert!(what_ifs.tried(&asked(Some(&ids[0]), None)).is_err());
        let (_, words) = what_ifs.tried(&asked(Some(&ids[1]), None)).unwrap();
        assert_eq!(words, "b.wasm base=2s");
        let (_, words) = what_ifs.tried(&asked(None, Some("linear"))).unwrap();
        assert_eq!(words, "linear base=2s");
        // Nothing chooses nothing.
        assert!(what_ifs.tried(&asked(None, None)).is_err());
        assert!(
            what_ifs
                .tried(&asked(Some(&ids[1]), Some("linear")))
                .is_err()
        );
    }
}
