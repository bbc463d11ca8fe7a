//! Whether a component is up to date. A build records a digest of the paths, sizes and times of all source files.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::project::Project;

/// Names in a policy's folder that are not sources of its component.
const NOT_SOURCES: [&str; 7] = [
    "build",
    "bindings",
    "node_modules",
    "target",
    "__pycache__",
    "scenarios.toml",
    "README.md",
];

/// Extensions of reports and charts, which are not sources either.
const REPORTS: [&str; 3] = ["xml", "svg", "png"];

impl Project {
    /// Whether the component exists and this program built it from the current sources. It compares paths, sizes and times, so restored and removed files count as changes too.
    pub fn is_built(&self) -> bool {
        let built = std::fs::read_to_string(self.stamp());
        self.component().is_file() && built.is_ok_and(|built| built == self.sources())
    }

    /// A digest of the current sources. Taken before a build, so that changes during the build cause the next one.
    pub(crate) fn sources(&self) -> String {
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
            let path = file.strip_prefix(&self.folder).unwrap_or(&file);
            digest.update(format!("{}|{size:?}|{changed:?}\n", path.display()));
        }
        hex::encode(digest.finalize())
    }

    /// Records the sources of the component, or nothing if the build does not count.
    pub(crate) fn record_build(&self, sources: Option<&str>) -> io::Result<()> {
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
        let is_written = |ending: &OsStr| REPORTS.iter().any(|it| ending == *it);
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
    fn a_component_is_up_to_date_until_a_source_changes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mine");
        let name: PolicyName = "mine".parse().unwrap();
        let project = create(&folder, &name, Language::JavaScript).unwrap();
        assert!(!project.is_built());
        std::fs::create_dir(folder.join("build")).unwrap();
        std::fs::write(project.component(), "").unwrap();
        let build = || project.record_build(Some(&project.sources())).unwrap();
        build();
        assert!(project.is_built());

        // Scenarios, generated files and reports do not count.
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
