//! The folder of each run: what it does (`plan.json`), its set (`letters.jsonl`) and what it has done (`journal.jsonl`).

use std::collections::HashSet;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use backstop_files::{atomic_write, regular_file};

use super::RedriveError;
use super::ledger::Ledger;
use super::plan::Plan;
use crate::json_lines::each_line;

/// The largest plan.
const PLAN_BYTES: usize = 64 << 20;

/// The longest line of a set: an id.
const LETTER_BYTES: u64 = 64 << 10;

/// The folder with the runs of this user.
#[derive(Debug, Clone)]
pub struct Runs(PathBuf);

impl Runs {
    /// The runs in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The ids of all runs, the latest first.
    pub fn ids(&self) -> Result<Vec<String>, RedriveError> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut ids: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let id = entry.file_name().into_string().ok()?;
                (is_id(&id) && entry.path().join("plan.json").exists()).then_some(id)
            })
            .collect();
        ids.sort_by(|one, other| other.cmp(one));
        Ok(ids)
    }

    /// The run with this id.
    pub fn find(&self, id: &str) -> Result<RunFolder, RedriveError> {
        let folder = self.0.join(id);
        if !is_id(id) || !folder.join("plan.json").exists() {
            return Err(RedriveError::NoRun {
                run: id.to_owned(),
                folder: self.0.clone(),
            });
        }
        Ok(RunFolder(folder))
    }

    /// Refuses a further run of this queue while an earlier one has letters there that it has sent, or was sending when it was killed. A run that another process works on is none of these, since it holds its letters.
    pub fn check_settled(&self, queue: &str) -> Result<(), RedriveError> {
        for run in self.ids()? {
            let folder = self.find(&run)?;
            // What is wrong with another run is no reason to refuse this one.
            let Ok(plan) = folder.plan() else { continue };
            if plan.queue != queue || folder.is_active() {
                continue;
            }
            let Ok(ledger) = folder.ledger() else {
                continue;
            };
            let letters = ledger.letters_left();
            if letters > 0 {
                return Err(RedriveError::Unsettled { run, letters });
            }
        }
        Ok(())
    }

    /// Creates the folder of a new run.
    pub fn create(&self, plan: &Plan) -> Result<RunFolder, RedriveError> {
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(&self.0)?;
        let folder = self.0.join(&plan.run);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let text = serde_json::to_vec_pretty(plan).map_err(std::io::Error::from)?;
        atomic_write::write(&folder.join("plan.json"), &text, 0o600)?;
        // The names of the files, too, have to be on the disk.
        for parent in [&folder, &self.0] {
            File::open(parent)?.sync_all()?;
        }
        Ok(RunFolder(folder))
    }
}

fn is_id(name: &str) -> bool {
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the run does.
    pub fn plan(&self) -> Result<Plan, RedriveError> {
        let path = self.0.join("plan.json");
        let unreadable = |cause: std::io::Error| {
            std::io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))
        };
        let text = regular_file::read(&path, PLAN_BYTES).map_err(unreadable)?;
        let plan = serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
        Ok(plan)
    }

    /// What the run has done.
    pub fn ledger(&self) -> Result<Ledger, RedriveError> {
        Ok(Ledger::read(&self.journal())?)
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }

    /// Whether a process works on the run now.
    pub fn is_active(&self) -> bool {
        let path = self.0.join("lock");
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Takes the run until the file is dropped. One process at a time has it.
    pub fn lock(&self) -> Result<File, RedriveError> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.0.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RedriveError::Active {
                folder: self.0.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Writes the set: the ids of its letters, and of those that are left alone.
    pub(super) fn write_letters(
        &self,
        members: &HashSet<String>,
        others: &HashSet<String>,
    ) -> std::io::Result<()> {
        let lines = members.iter().map(|id| (true, id));
        let mut text = Vec::new();
        for line in lines.chain(others.iter().map(|id| (false, id))) {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        atomic_write::write(&self.0.join("letters.jsonl"), &text, 0o600)?;
        File::open(&self.0)?.sync_all()
    }

    /// The set, if it is fixed: the ids of its letters, and of those that are left alone.
    pub(super) fn letters(&self) -> std::io::Result<Option<(HashSet<String>, HashSet<String>)>> {
        let path = self.0.join("letters.jsonl");
        let (mut members, mut others) = (HashSet::new(), HashSet::new());
        let is_fixed = each_line(&path, LETTER_BYTES, |number, line| {
            let line = serde_json::from_slice(line);
            let (is_member, id): (bool, String) = line.map_err(|cause| {
                let text = format!("{}, line {number}: {cause}", path.display());
                std::io::Error::new(std::io::ErrorKind::InvalidData, text)
            })?;
            if is_member {
                members.insert(id)
            } else {
                others.insert(id)
            };
            Ok(())
        })?;
        Ok(is_fixed.then_some((members, others)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_works_on_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder(folder.path().to_owned());
        assert!(!run.is_active());
        let lock = run.lock().unwrap();
        assert!(run.is_active() && run.lock().is_err());
        drop(lock);
        assert!(!run.is_active() && run.lock().is_ok());
    }

    #[test]
    fn the_set_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder(folder.path().to_owned());
        assert!(run.letters().unwrap().is_none());
        let members: HashSet<_> = ["a".to_owned(), "b \"\n".to_owned()].into();
        let others: HashSet<_> = ["c".to_owned()].into();
        run.write_letters(&members, &others).unwrap();
        assert_eq!(run.letters().unwrap(), Some((members, others)));
    }

    #[test]
    fn a_run_is_found_by_its_id_only() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Runs::at(folder.path());
        for id in ["", "..", "a/b", "none"] {
            assert!(runs.find(id).is_err(), "{id}");
        }
        assert_eq!(
            Runs::at("/no/such/folder").ids().unwrap(),
            Vec::<String>::new()
        );
    }
}
