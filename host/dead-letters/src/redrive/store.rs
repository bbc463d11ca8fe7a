//! The folder of each run: what it does (`plan.json`), its set (`letters.jsonl`) and what it has done (`journal.jsonl`).

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_files::{atomic_write, regular_file};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::RedriveError;
use super::journal::Journal;
use super::ledger::Ledger;
use super::plan::Plan;
use super::shared::{self, Fetched, JOURNAL, LETTERS, Objects, PLAN, SharedRun};
use crate::json_lines::each_line;

/// The largest plan.
const PLAN_BYTES: usize = 64 << 20;

/// The file that says what of a run was copied last.
const COPIED: &str = "copied";

/// The runs that are copied at the same time.
const AT_ONCE: usize = 8;

/// The longest line of a set: an id.
const LETTER_BYTES: u64 = 64 << 10;

/// The runs in a folder: those of this user, or of all who share it.
#[derive(Debug, Clone)]
pub struct Runs {
    folder: PathBuf,
    /// Where the files are, if the folder has copies of them only.
    objects: Option<Arc<dyn Objects>>,
    /// The next parts of their journals.
    next: HashMap<String, u64>,
}

impl Runs {
    /// The runs in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            objects: None,
            next: HashMap::new(),
        }
    }

    /// The runs in a place that several operators share, with copies of their files in this folder: of one run, or of all.
    pub async fn shared(
        folder: impl Into<PathBuf>,
        objects: Arc<dyn Objects>,
        run: Option<&str>,
    ) -> Result<Self, RedriveError> {
        let mut runs = Self {
            objects: Some(Arc::clone(&objects)),
            ..Self::at(folder)
        };
        let ids = match run {
            Some(run) => vec![run.to_owned()],
            None => objects.folders().await?,
        };
        let copies = stream::iter(ids.into_iter().filter(|id| is_id(id)))
            .map(|id| runs.copy(&*objects, id))
            .buffer_unordered(AT_ONCE);
        runs.next = copies
            .try_filter_map(async |it| Ok(it))
            .try_collect()
            .await?;
        Ok(runs)
    }

    /// Copies the files of a run into the folder. Returns the number of the next part of its journal.
    async fn copy(
        &self,
        objects: &dyn Objects,
        id: String,
    ) -> Result<Option<(String, u64)>, RedriveError> {
        let Some(listed) = shared::listed(&objects.names(&id).await?) else {
            return Ok(None);
        };
        let next = listed.next();
        let folder = RunFolder::of(self.folder.join(&id), None);
        // A process that works on it writes the copies itself.
        if !folder.is_active() && folder.copied().as_deref() != Some(listed.state().as_bytes()) {
            self.folder_of(&id)?;
            folder.copy(listed.fetch(objects, &id).await?, &listed.state())?;
        }
        Ok(Some((id, next)))
    }

    /// Where they are, for messages.
    pub fn place(&self) -> String {
        match &self.objects {
            Some(objects) => objects.url(),
            None => self.folder.display().to_string(),
        }
    }

    /// The ids of all runs, the latest first.
    pub fn ids(&self) -> Result<Vec<String>, RedriveError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut ids: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let id = entry.file_name().into_string().ok()?;
                let is_there = self.objects.is_none() || self.next.contains_key(&id);
                let has_plan = entry.path().join(PLAN).exists();
                (is_id(&id) && is_there && has_plan).then_some(id)
            })
            .collect();
        ids.sort_by(|one, other| other.cmp(one));
        Ok(ids)
    }

    /// The run with this id.
    pub fn find(&self, id: &str) -> Result<RunFolder, RedriveError> {
        let folder = self.folder.join(id);
        if !is_id(id) || !folder.join(PLAN).exists() {
            return Err(RedriveError::NoRun {
                run: id.to_owned(),
                place: self.place(),
            });
        }
        Ok(RunFolder::of(folder, self.objects_of(id)))
    }

    fn objects_of(&self, run: &str) -> Option<Arc<SharedRun>> {
        let next = self.next.get(run).copied().unwrap_or(1);
        let objects = self.objects.as_ref();
        objects.map(|objects| Arc::new(SharedRun::new(objects, run, next)))
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
    pub async fn create(&self, plan: &Plan) -> Result<RunFolder, RedriveError> {
        let folder = self.folder_of(&plan.run)?;
        let text = serde_json::to_vec_pretty(plan).map_err(std::io::Error::from)?;
        let run = RunFolder::of(folder, self.objects_of(&plan.run));
        if let Some(shared) = &run.shared {
            shared.create(PLAN, text.clone()).await?;
        }
        run.write(PLAN, &text)?;
        // The names of the files, too, have to be on the disk.
        for parent in [&run.path, &self.folder] {
            File::open(parent)?.sync_all()?;
        }
        Ok(run)
    }

    /// Creates a folder for the files of a run. Who may write into the folder of all runs may write there.
    fn folder_of(&self, run: &str) -> std::io::Result<PathBuf> {
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(&self.folder)?;
        let folder = self.folder.join(run);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        if is_of_group(&self.folder) {
            std::fs::set_permissions(&folder, Permissions::from_mode(0o2770))?;
        }
        Ok(folder)
    }
}

/// Whether a group may write into a folder: it shares the runs.
fn is_of_group(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o070 == 0o070)
}

fn is_id(name: &str) -> bool {
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    /// Where its files are, if these are copies.
    shared: Option<Arc<SharedRun>>,
}

impl RunFolder {
    fn of(path: PathBuf, shared: Option<Arc<SharedRun>>) -> Self {
        Self { path, shared }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the files of a run that were read from its objects.
    fn copy(&self, fetched: Fetched, state: &str) -> std::io::Result<()> {
        self.write(PLAN, &fetched.plan)?;
        if let Some(letters) = fetched.letters {
            self.write(LETTERS, &letters)?;
        }
        self.write(JOURNAL, &fetched.journal)?;
        self.write(COPIED, state.as_bytes())
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
        let plan = serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
        Ok(plan)
    }

    /// What the run has done.
    pub fn ledger(&self) -> Result<Ledger, RedriveError> {
        Ok(Ledger::read(&self.journal())?)
    }

    fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Opens the journal to add to it.
    pub(super) fn open_journal(&self) -> std::io::Result<Journal> {
        let journal = Journal::open(&self.journal(), self.shared.clone())?;
        self.share(&self.journal());
        Ok(journal)
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
        let path = self.path.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        self.share(&path);
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RedriveError::Active {
                folder: self.path.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Lets those who share the run read its journal at once. Without it, they read it in parts.
    pub(super) async fn compact(&self) {
        if let Some(shared) = &self.shared
            && let Ok(journal) = regular_file::read(&self.journal(), PLAN_BYTES)
        {
            let _ = shared.compact(&journal).await;
        }
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
