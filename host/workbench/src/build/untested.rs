//! A component whose tests have not passed yet. It waits in a folder of its own, so that a host that watches the component never sees a version that fails its tests.

use std::path::{Path, PathBuf};

use super::{BuildError, made, unusable, write_if_changed};
use crate::project::Project;

/// A component that is newer than the one that hosts load, `build/NAME.wasm`.
#[derive(Debug)]
pub struct Untested<'a> {
    project: &'a Project,
    sources: String,
}

impl<'a> Untested<'a> {
    /// The component of the current sources: that of an earlier call, or a new one. `step` is called with each command of the toolchain before it runs.
    pub fn build(project: &'a Project, step: &mut dyn FnMut(&str)) -> Result<Self, BuildError> {
        let mut untested = Self {
            project,
            sources: project.sources(),
        };
        let recorded = std::fs::read_to_string(untested.stamp());
        if untested.path().is_file() && recorded.is_ok_and(|it| it == untested.sources) {
            return Ok(untested);
        }
        let (component, sources) = made(project, false, step)?;
        untested.sources = sources;
        let (path, stamp) = (untested.path(), untested.stamp());
        // In this order, the record is never that of an older component.
        let _ = std::fs::remove_file(&stamp);
        write_if_changed(&path, &component).map_err(unusable("write", &path))?;
        std::fs::write(&stamp, &untested.sources).map_err(unusable("write", &stamp))?;
        Ok(untested)
    }

    /// Where it is until its tests have passed.
    pub fn path(&self) -> PathBuf {
        self.folder().join(format!("{}.wasm", self.project.name))
    }

    /// Makes it the component that hosts load. That is replaced atomically, and not written if it is the same.
    pub fn release(self) -> Result<(), BuildError> {
        let (from, to) = (self.path(), self.project.component());
        if is_same(&from, &to) {
            let _ = std::fs::remove_file(&from);
        } else {
            std::fs::rename(&from, &to).map_err(unusable("write", &to))?;
        }
        let recorded = self.project.record_build(Some(&self.sources));
        recorded.map_err(unusable("write into the folder of", &to))?;
        let _ = std::fs::remove_dir_all(self.folder());
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.project.folder.join("build/untested")
    }

    fn stamp(&self) -> PathBuf {
        self.folder().join("sources")
    }
}

fn is_same(left: &Path, right: &Path) -> bool {
    let read = |path: &Path| std::fs::read(path).ok();
    read(left).is_some_and(|left| read(right).is_some_and(|right| left == right))
}
