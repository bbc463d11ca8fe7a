//! The folder of each run: what it does (`plan.json`), its set (`letters.jsonl`) and what it has done (`journal.jsonl`).

use std::collections::{BTreeMap, HashSet};
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_core::text::chain;
use backstop_files::{atomic_write, regular_file};
use futures_util::stream::{self, StreamExt};

use super::RedriveError;
use super::journal::Journal;
use super::ledger::Ledger;
use super::plan::Plan;
use super::shared::{Fetched, JOURNAL, LETTERS, Objects, PLAN, SharedRun};
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
    /// Those that are there, and why they can't be read if they can't.
    listed: BTreeMap<String, Option<String>>,
}

impl Runs {
    /// The runs in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            objects: None,
            listed: BTreeMap::new(),
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
            .map(async |id| {
                let copied = runs.copy(&objects, &id).await;
                (id, copied)
            })
            .buffer_unordered(AT_ONCE);
        let copies: Vec<_> = copies.collect().await;
        runs.listed = copies
            .into_iter()
            .filter_map(|(id, copied)| match copied {
                Ok(false) => None,
                Ok(true) => Some((id, None)),
                Err(error) => Some((id, Some(chain(&error)))),
            })
            .collect();
        Ok(runs)
    }

    /// Copies the files of a run into the folder, unless a process of this machine works on it, which does so itself. Returns whether there is such a run.
    async fn copy(&self, objects: &Arc<dyn Objects>, id: &str) -> Result<bool, RedriveError> {
        let shared = Arc::new(SharedRun::new(objects, id));
        if shared.list().await?.is_none() {
            return Ok(false);
        }
        let folder = RunFolder::of(self.folder_of(id)?, Some(shared));
        match folder.lock() {
            Ok(_lock) => folder.refresh().await?,
            Err(RedriveError::Active { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Whether they are kept where several operators share them.
    pub fn is_shared(&self) -> bool {
        self.objects.is_some()
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
        if self.objects.is_some() {
            return Ok(self.listed.keys().rev().cloned().collect());
        }
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut ids: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let id = entry.file_name().into_string().ok()?;
                let has_plan = entry.path().join(PLAN).exists();
                (is_id(&id) && has_plan).then_some(id)
            })
            .collect();
        ids.sort_by(|one, other| other.cmp(one));
        Ok(ids)
    }

    /// The run with this id.
    pub fn find(&self, id: &str) -> Result<RunFolder, RedriveError> {
        let folder = self.folder.join(id);
        if let Some(Some(unreadable)) = self.listed.get(id) {
            return Err(std::io::Error::other(unreadable.clone()).into());
        }
        let is_there = self.objects.is_none() || self.listed.contains_key(id);
        if !is_id(id) || !is_there || !folder.join(PLAN).exists() {
            return Err(RedriveError::NoRun {
                run: id.to_owned(),
                place: self.place(),
            });
        }
        Ok(RunFolder::of(folder, self.objects_of(id)))
    }

    fn objects_of(&self, run: &str) -> Option<Arc<SharedRun>> {
        let objects = self.objects.as_ref();
        objects.map(|objects| Arc::new(SharedRun::new(objects, run)))
    }

    /// Refuses a further run of this queue while an earlier one has letters there that it has sent, or was sending when it was killed. A run that another process works on is none of these, since it holds its letters.
    pub fn check_settled(&self, queue: &str) -> Result<(), RedriveError> {
        for run in self.ids()? {
            // What is wrong with another run is no reason to refuse this one.
            let Ok(folder) = self.find(&run) else {
                continue;
            };
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
            shared.begin(text.clone()).await?;
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

    /// Reads the files of a shared run again, which others may have changed. The run is locked.
    pub(super) async fn refresh(&self) -> Result<(), RedriveError> {
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
