//! All runs: in a folder, or in a place that several operators share, with copies in a folder.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use backstop_core::text::chain;
use backstop_files::FileWork;
use futures_util::stream::{self, StreamExt};

use super::RedriveError;
use super::plan::Plan;
use super::run_folder::{RunFolder, is_of_group};
use super::shared::{Objects, PLAN, SharedRun};

/// The runs that are copied at the same time.
const AT_ONCE: usize = 8;

/// The runs in a folder: those of this user, or of all who share it.
#[derive(Debug, Clone)]
pub struct Runs {
    folder: PathBuf,
    /// Where the files are, if the folder has copies of them only.
    objects: Option<Arc<dyn Objects>>,
    /// Those that are there, and why they can't be read if they can't.
    listed: BTreeMap<String, Option<String>>,
    /// How many more are there, if only the newest are listed.
    unlisted: usize,
    work: FileWork,
}

impl Runs {
    /// The runs in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            objects: None,
            listed: BTreeMap::new(),
            unlisted: 0,
            work: FileWork::default(),
        }
    }

    /// Writes their journals and copies by the task that needs them, so that nothing depends on how threads take turns: for simulations.
    pub fn in_place(self) -> Self {
        Self {
            work: FileWork::InPlace,
            ..self
        }
    }

    /// The runs in a place that several operators share, with copies of their files in this folder: of one run, or of all.
    pub async fn shared(
        folder: impl Into<PathBuf>,
        objects: Arc<dyn Objects>,
        run: Option<&str>,
    ) -> Result<Self, RedriveError> {
        let ids = match run {
            Some(run) => vec![run.to_owned()],
            None => objects.folders().await?,
        };
        Self::copied(folder, objects, ids).await
    }

    /// The newest runs in such a place.
    pub async fn newest_shared(
        folder: impl Into<PathBuf>,
        objects: Arc<dyn Objects>,
        most: usize,
    ) -> Result<Self, RedriveError> {
        let mut ids = objects.folders().await?;
        ids.retain(|id| is_id(id));
        ids.sort_by(|one, other| other.cmp(one));
        let unlisted = ids.split_off(most.min(ids.len())).len();
        let runs = Self::copied(folder, objects, ids).await?;
        Ok(Self { unlisted, ..runs })
    }

    async fn copied(
        folder: impl Into<PathBuf>,
        objects: Arc<dyn Objects>,
        ids: Vec<String>,
    ) -> Result<Self, RedriveError> {
        let mut runs = Self {
            objects: Some(Arc::clone(&objects)),
            ..Self::at(folder)
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
        let _copying = folder.copying().await?;
        if !folder.is_active() {
            folder.copy().await?;
        }
        Ok(true)
    }

    /// How many more are there than are listed.
    pub fn unlisted(&self) -> usize {
        self.unlisted
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
        Ok(RunFolder::of(folder, self.objects_of(id)).written(self.work))
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
        let run = RunFolder::of(folder, self.objects_of(&plan.run)).written(self.work);
        run.begin(&text).await?;
        // The names of the files, too, have to be on the disk.
        for parent in [run.path(), &self.folder] {
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

fn is_id(name: &str) -> bool {
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
    !name.is_empty() && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

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
