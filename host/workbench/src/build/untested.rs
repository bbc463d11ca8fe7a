//! A component whose tests have not passed yet. It waits in a folder of its own, so that a host that watches the component never sees a version that fails its tests.

use std::path::PathBuf;

use super::{BuildError, made, unusable, write_if_changed};
use crate::project::Project;

/// A component that is newer than the one that hosts load, `build/NAME.wasm`.
#[derive(Debug)]
pub struct Untested<'a> {
    project: &'a Project,
    sources: String,
    component: Vec<u8>,
}

impl<'a> Untested<'a> {
    /// The component of the current sources: that of an earlier call, or a new one. `step` is called with each command of the toolchain before it runs.
    pub fn build(project: &'a Project, step: &mut dyn FnMut(&str)) -> Result<Self, BuildError> {
        let mut untested = Self {
            project,
            sources: project.sources(),
            component: Vec::new(),
        };
        let (path, stamp) = (untested.path(), untested.stamp());
        let is_current = std::fs::read_to_string(&stamp).is_ok_and(|it| it == untested.sources);
        if let Some(component) = std::fs::read(&path).ok().filter(|_| is_current) {
            untested.component = component;
            return Ok(untested);
        }
        (untested.component, untested.sources) = made(project, false, step)?;
        // In this order, the record is never that of an older component.
        let _ = std::fs::remove_file(&stamp);
        write_if_changed(&path, &untested.component).map_err(unusable("write", &path))?;
        std::fs::write(&stamp, &untested.sources).map_err(unusable("write", &stamp))?;
        Ok(untested)
    }

    /// Where it is until its tests have passed.
    pub fn path(&self) -> PathBuf {
        self.folder().join(format!("{}.wasm", self.project.name))
    }

    /// Makes it the component that hosts load, which is replaced atomically. Another test of the same folder may have built other sources meanwhile: then nobody knows which of the two was tested, and nothing is replaced.
    pub fn release(self) -> Result<(), BuildError> {
        let (from, to) = (self.path(), self.project.component());
        if std::fs::read(&from).ok().as_ref() != Some(&self.component) {
            return Err(BuildError::ChangedMeanwhile { path: from });
        }
        write_if_changed(&to, &self.component).map_err(unusable("write", &to))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two people test the same folder: what the second one builds, the first one has not tested.
    #[test]
    fn what_another_test_has_built_meanwhile_is_not_released() {
        let folder = tempfile::tempdir().unwrap();
        let manifest =
            "name = \"orders\"\nversion = \"0.1.0\"\nlanguage = \"c\"\nanswers = [\"backoff\"]\n";
        std::fs::write(folder.path().join("policy.toml"), manifest).unwrap();
        let project = Project::open(folder.path()).unwrap();
        let waiting = folder.path().join("build/untested");
        std::fs::create_dir_all(&waiting).unwrap();
        std::fs::write(waiting.join("orders.wasm"), "tested").unwrap();
        std::fs::write(waiting.join("sources"), project.sources()).unwrap();

        let no_step = &mut |step: &str| panic!("{step}");
        let untested = Untested::build(&project, no_step).unwrap();
        std::fs::write(untested.path(), "of another test").unwrap();
        let error = untested.release().unwrap_err();
        assert!(error.to_string().contains("run the test again"), "{error}");
        assert!(!project.component().exists());

        std::fs::write(waiting.join("orders.wasm"), "tested").unwrap();
        let untested = Untested::build(&project, no_step).unwrap();
        untested.release().unwrap();
        assert_eq!(std::fs::read(project.component()).unwrap(), b"tested");
        assert!(!waiting.exists());
    }
}
