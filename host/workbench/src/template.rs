//! `backstop policy new`: creates a policy's folder from a template, a copy of an example in `examples/policies/`.

use std::io;
use std::path::{Path, PathBuf};

use super::bindings::{self, BindingsError};
use crate::project::{Language, PolicyName, Project, ProjectError};

/// The name of the policy in the examples.
const EXAMPLE: &str = "card-payments";

const SCENARIOS: &str = include_str!("../templates/scenarios.toml");

/// The files of an example, by their path in its folder. `templates/` links to `examples/policies`.
macro_rules! files {
    ($folder:literal: $($path:literal)+) => {
        files!($folder: $($path = $path)+)
    };
    ($folder:literal: $($path:literal = $file:literal)+) => {
        &[$(($path, include_str!(concat!("../templates/", $folder, "/", $file)))),+]
    };
}

/// The files of a template, except the scenarios, which all languages share.
fn files(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::Rust => {
            // `cargo package` leaves out folders that have a `Cargo.toml`.
            files!("rust": "README.md" = "README.md" "policy.toml" = "policy.toml" ".gitignore" = "gitignore" "Cargo.toml" = "manifest.toml" "rust-toolchain.toml" = "rust-toolchain.toml" "src/lib.rs" = "src/lib.rs")
        }
        Language::JavaScript => {
            files!("javascript": "README.md" "policy.toml" ".gitignore" "package.json" "policy.js")
        }
        Language::TypeScript => {
            files!("typescript": "README.md" "policy.toml" ".gitignore" "package.json" "tsconfig.json" "policy.ts")
        }
        Language::Python => {
            files!("python": "README.md" "policy.toml" ".gitignore" "requirements.txt" "policy.py")
        }
        Language::Go => {
            files!("go": "README.md" "policy.toml" ".gitignore" "go.mod" "policy.go")
        }
        Language::C => {
            files!("c": "README.md" "policy.toml" ".gitignore" "requirements.txt" "policy.c")
        }
    }
}

/// Why a policy's folder can't be created.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// The folder already contains something.
    #[error("{} already exists and is not empty; name another folder with --folder", folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
    /// A file can't be written.
    #[error("can't write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The bindings can't be generated.
    #[error(transparent)]
    Bindings(#[from] BindingsError),
    /// The template is invalid, which is a bug of this program.
    #[error(transparent)]
    Project(#[from] ProjectError),
}

/// Creates a policy in `folder`, which must not exist or be empty.
pub fn create(folder: &Path, name: &PolicyName, language: Language) -> Result<Project, NewError> {
    let taken = std::fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some());
    if taken || folder.is_file() {
        return Err(NewError::Taken {
            folder: folder.to_owned(),
        });
    }
    let scenarios = ("scenarios.toml", SCENARIOS);
    for (path, text) in files(language).iter().chain([&scenarios]) {
        let path = folder.join(path);
        write(&path, &renamed(text, name)).map_err(|cause| NewError::Unwritable { path, cause })?;
    }
    let project = Project::open(folder)?;
    bindings::write(&project)?;
    Ok(project)
}

/// Replaces the example's name by the policy's.
fn renamed(text: &str, name: &PolicyName) -> String {
    text.replace(EXAMPLE, &name.to_string())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_template_that_is_a_policy_s_folder() {
        for language in Language::ALL {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("mine");
            let name: PolicyName = "night-shift".parse().unwrap();
            let project = create(&folder, &name, language).unwrap();
            assert_eq!((&project.name, project.language), (&name, language));
            assert!(folder.join(language.source()).is_file(), "{language}");
            assert!(project.scenarios().is_file());
            for (path, _) in files(language) {
                let text = std::fs::read_to_string(folder.join(path)).unwrap();
                assert!(!text.contains(EXAMPLE), "{language}: {path}");
            }
            let again = create(&folder, &name, language).unwrap_err();
            assert!(matches!(again, NewError::Taken { .. }));
        }
    }
}
