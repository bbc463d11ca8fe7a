//! The folder of a run: what it does (`plan.json`), its set (`letters.jsonl`) and what it has done (`journal.jsonl`). Those of a shared run are copies.

use std::collections::HashSet;
use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_files::{FileWork, atomic_write, regular_file};
use tokio::time::sleep;

use super::RedriveError;
use super::entry::Entry;
use super::journal::{self, Journal};
use super::ledger::Ledger;
use super::plan::Plan;
use super::shared::{Fetched, JOURNAL, LETTERS, PLAN, SharedRun};
use crate::archive::ArchiveFile;
use crate::json_lines::each_line;

/// The largest plan.
const PLAN_BYTES: usize = 64 << 20;

/// The file that says what of a run was copied last.
const COPIED: &str = "copied";

/// How often another command that copies the same run is waited for: two minutes in all.
const COPYING_CHECK: Duration = Duration::from_millis(100);
const COPYING_TRIES: u32 = 1_200;

/// The longest line of a set: an id.
const LETTER_BYTES: u64 = 64 << 10;

/// Whether a group may write into a folder: it shares the runs.
pub(super) fn is_of_group(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o070 == 0o070)
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    /// Where its files are, if these are copies.
    shared: Option<Arc<SharedRun>>,
    work: FileWork,
}

impl RunFolder {
    pub(super) fn of(path: PathBuf, shared: Option<Arc<SharedRun>>) -> Self {
        Self {
            path,
            shared,
            work: FileWork::default(),
        }
    }

    /// With where the journal and the copies are written.
    pub(super) fn written(self, work: FileWork) -> Self {
        Self { work, ..self }
    }

    /// Where the journal and the copies are written.
    pub(super) fn work(&self) -> FileWork {
        self.work
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the plan of a new run.
    pub(super) async fn begin(&self, plan: &[u8]) -> std::io::Result<()> {
        if let Some(shared) = &self.shared {
            shared.begin(plan.to_vec()).await?;
        }
        self.write(PLAN, plan)
    }

    /// Reads the files of a shared run again, which others may have changed. The run is locked, so nobody else copies them after this.
    pub(super) async fn refresh(&self) -> Result<(), RedriveError> {
        if self.is_shared() {
            let _copying = self.copying().await?;
            self.copy().await?;
        }
        Ok(())
    }

    /// Waits for the turn to copy the files, until the file is dropped.
    pub(super) async fn copying(&self) -> Result<File, RedriveError> {
        let file = self.lock_file("copying")?;
        for _ in 0..COPYING_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(COPYING_CHECK).await,
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(RedriveError::Active {
            folder: self.path.clone(),
        })
    }

    /// Copies the files from their objects, unless they are the same.
    pub(super) async fn copy(&self) -> Result<(), RedriveError> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        let listed = shared.list().await?.ok_or_else(|| {
            let text = format!("{} has no {PLAN}", shared.url());
            std::io::Error::new(std::io::ErrorKind::NotFound, text)
        })?;
        let state = listed.state();
        if self.copied().as_deref() == Some(state.as_bytes()) {
            return Ok(());
        }
        let Fetched {
            plan,
            letters,
            journal,
        } = shared.fetch(&listed).await?;
        self.write(PLAN, &plan)?;
        if let Some(letters) = letters {
            self.write(LETTERS, &letters)?;
        }
        self.write(JOURNAL, &journal)?;
        self.write(COPIED, state.as_bytes())?;
        Ok(())
    }

    /// What was copied last.
    fn copied(&self) -> Option<Vec<u8>> {
        regular_file::read(&self.path.join(COPIED), 100).ok()
    }

    /// Writes a file for those who may use the folder.
    fn write(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        let path = self.path.join(name);
        atomic_write::write(&path, content, 0o600)?;
        self.share(&path);
        Ok(())
    }

    /// Lets a group that has the folder use a file. Those of others are shared already.
    fn share(&self, file: &Path) {
        if is_of_group(&self.path) {
            let _ = std::fs::set_permissions(file, Permissions::from_mode(0o660));
        }
    }

    /// What the run does.
    pub fn plan(&self) -> Result<Plan, RedriveError> {
        let path = self.path.join(PLAN);
        let unreadable = |cause: std::io::Error| {
            std::io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))
        };
        let text = regular_file::read(&path, PLAN_BYTES).map_err(unreadable)?;
        let plan: Plan = serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
        let name = self.path.file_name().and_then(|name| name.to_str());
        if name != Some(&plan.run) {
            let cause = std::io::Error::other("it is the plan of another run");
            return Err(unreadable(cause).into());
        }
        Ok(plan)
    }

    /// What the run has done.
    pub fn ledger(&self) -> Result<Ledger, RedriveError> {
        Ok(Ledger::read(&self.journal())?)
    }

    /// Calls `each` with the entries of the journal, each with the number of its line, from 1. Lines that can't be read are left out.
    pub fn entries(&self, each: impl FnMut(u64, Entry)) -> Result<(), RedriveError> {
        Ok(journal::read_numbered(&self.journal(), each).map(drop)?)
    }

    /// The file of the journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Opens the journal to add to it.
    pub(super) fn open_journal(&self) -> std::io::Result<Journal> {
        let journal = Journal::open(&self.journal(), self.shared.clone(), self.work)?;
        self.share(&self.journal());
        Ok(journal)
    }

    /// The file with the letters as they were before they were sent, in the form of `dlq archive`.
    pub fn copies(&self) -> PathBuf {
        self.path.join("copies.jsonl")
    }

    /// Opens that file, if the plan says that copies are kept.
    pub(super) fn open_copies(&self, plan: &Plan) -> Result<Option<ArchiveFile>, RedriveError> {
        if !plan.keep_copies {
            return Ok(None);
        }
        if self.is_shared() {
            return Err(RedriveError::NoCopies);
        }
        let copies = ArchiveFile::open(&self.copies())?;
        self.share(&self.copies());
        Ok(Some(copies))
    }

    /// Whether a process works on the run now.
    pub fn is_active(&self) -> bool {
        let path = self.path.join("lock");
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Where its files are, for messages.
    pub fn place(&self) -> String {
        match &self.shared {
            Some(shared) => shared.url(),
            None => self.path.display().to_string(),
        }
    }

    /// Whether the files are those of all who share the runs, and another machine may work on it.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Takes the run until the file is dropped. One process at a time has it.
    pub fn lock(&self) -> Result<File, RedriveError> {
        let file = self.lock_file("lock")?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RedriveError::Active {
                folder: self.path.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    fn lock_file(&self, name: &str) -> std::io::Result<File> {
        let path = self.path.join(name);
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true);
        let file = file.mode(0o600).open(&path)?;
        self.share(&path);
        Ok(file)
    }

    /// Writes the set: the ids of its letters, and of those that are left alone.
    pub(super) async fn write_letters(
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
        if let Some(shared) = &self.shared {
            shared.create(LETTERS, text.clone()).await?;
        }
        self.write(LETTERS, &text)?;
        File::open(&self.path)?.sync_all()
    }

    /// The set, if it is fixed: the ids of its letters, and of those that are left alone.
    pub(super) fn letters(&self) -> std::io::Result<Option<(HashSet<String>, HashSet<String>)>> {
        let path = self.path.join(LETTERS);
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
        let run = RunFolder::of(folder.path().to_owned(), None);
        assert!(!run.is_active());
        let lock = run.lock().unwrap();
        assert!(run.is_active() && run.lock().is_err());
        drop(lock);
        assert!(!run.is_active() && run.lock().is_ok());
    }

    #[tokio::test]
    async fn the_set_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::of(folder.path().to_owned(), None);
        assert!(run.letters().unwrap().is_none());
        let members: HashSet<_> = ["a".to_owned(), "b \"\n".to_owned()].into();
        let others: HashSet<_> = ["c".to_owned()].into();
        run.write_letters(&members, &others).await.unwrap();
        assert_eq!(run.letters().unwrap(), Some((members, others)));
    }
}
