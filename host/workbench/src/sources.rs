//! What a component is made of, and whether it still is: every file of the policy's folder by its place, size and time, put down when it is built.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::project::Project;

/// What a folder may hold that its component is not made of.
const NOT_SOURCES: [&str; 7] = [
    "build",
    "bindings",
    "node_modules",
    "target",
    "__pycache__",
    "scenarios.toml",
    "README.md",
];

/// How the names of reports and charts end that commands write: no policy is made of them.
const WRITTEN: [&str; 3] = ["xml", "svg", "png"];

impl Project {
    /// Whether the component is there, and made of what is in the folder now by this program. Looks at places, sizes and times, so that a file that is put back, or taken away, counts too.
    pub fn is_built(&self) -> bool {
        let built = std::fs::read_to_string(self.stamp());
        self.component().is_file() && built.is_ok_and(|built| built == self.sources())
    }

    /// A digest of the sources as they are now. Taken before a build, so that what is saved during it is built the next time.
    pub(super) fn sources(&self) -> String {
        let mut files = Vec::new();
        collect(&self.folder, &mut files);
        files.sort();
        files.extend(std::env::current_exe());
        let mut digest = Sha256::new();
        for file in files {
            let about = file.metadata().ok();
            let size = about.as_ref().map(std::fs::Metadata::len);
            let changed = about.and_then(|about| about.modified().ok());
            let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let place = file.strip_prefix(&self.folder).unwrap_or(&file);
            digest.update(format!("{}|{size:?}|{changed:?}\n", place.display()));
        }
        hex::encode(digest.finalize())
    }

    /// Puts down what the component was made of; nothing where that is not to count.
    pub(super) fn built_of(&self, sources: Option<&str>) -> io::Result<()> {
        std::fs::write(self.stamp(), sources.unwrap_or_default())
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("build/sources")
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_hidden || NOT_SOURCES.iter().any(|other| name == *other) {
            continue;
        }
        let is_written = |ending: &OsStr| WRITTEN.iter().any(|it| ending == *it);
        if Path::new(&name).extension().is_some_and(is_written) {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            _ => files.push(entry.path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Language, PolicyName, create};

    #[test]
    fn a_component_is_built_until_anything_that_it_is_made_of_changes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mine");
        let name: PolicyName = "mine".parse().unwrap();
        let project = create(&folder, &name, Language::JavaScript).unwrap();
        assert!(!project.is_built());
        std::fs::create_dir(folder.join("build")).unwrap();
        std::fs::write(project.component(), "").unwrap();
        let build = || project.built_of(Some(&project.sources())).unwrap();
        build();
        assert!(project.is_built());

        // Neither what it must answer nor what is made anew counts.
        std::fs::write(folder.join("scenarios.toml"), "").unwrap();
        std::fs::write(folder.join("bindings/more"), "").unwrap();
        std::fs::write(folder.join("report.xml"), "").unwrap();
        assert!(project.is_built());

        let policy = folder.join("policy.js");
        let text = std::fs::read_to_string(&policy).unwrap();
        let saved = folder.join(".saved.js");
        std::fs::copy(&policy, &saved).unwrap();
        std::fs::write(&policy, text + "// more").unwrap();
        assert!(!project.is_built(), "changed");
        build();
        std::fs::rename(&saved, &policy).unwrap();
        assert!(!project.is_built(), "an older file put back");
        build();
        std::fs::remove_file(&policy).unwrap();
        assert!(!project.is_built(), "taken away");
    }
}
