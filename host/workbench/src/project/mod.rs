//! A policy's folder and its manifest, `policy.toml`: name, version, language, and the interfaces that the policy exports.

mod language;
mod name;

use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_backoff::parse_duration;
use serde::Deserialize;

use backstop_files::mistake::Mistake;
use backstop_files::regular_file::{self, WRITTEN};

pub use language::Language;
pub(crate) use language::{RUST_CHANNEL, RUST_TARGET};
pub use name::PolicyName;

/// The name of the manifest.
pub const MANIFEST: &str = "policy.toml";

/// The default time limit of a build. The first build in Rust downloads a toolchain.
const DEFAULT_BUILD_TIMEOUT: Duration = Duration::from_mins(10);

/// The longest time limit of a build.
const MAX_BUILD_TIMEOUT: Duration = Duration::from_hours(24);

/// The interfaces of the contract, as `answers` names them.
pub(crate) const QUESTIONS: [&str; 5] = [
    "settings",
    "classifier",
    "backoff",
    "dead-lettering",
    "outage",
];

/// A policy's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The path of the folder.
    pub folder: PathBuf,
    /// The name of the component.
    pub name: PolicyName,
    /// The version in the component's metadata.
    pub version: String,
    /// The language of the policy.
    pub language: Language,
    /// The interfaces that it exports, in the order of the contract.
    pub answers: Vec<&'static str>,
    /// The time limit of a build, from a second to a day.
    pub build_timeout: Duration,
}

/// Why a folder is not a policy's.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder has no manifest.
    #[error(
        "{} is not a policy's folder: it has no {MANIFEST}; create one with `backstop policy new NAME --lang LANGUAGE`",
        folder.display()
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The manifest can't be read.
    #[error("can't read {}", path.display())]
    Unreadable {
        /// The manifest.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The manifest is not TOML, or has an unknown key or an invalid value.
    #[error("{}: {mistake}", path.display())]
    Invalid {
        /// The manifest.
        path: PathBuf,
        /// Where, and what would be right.
        mistake: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Manifest {
    name: String,
    version: String,
    language: Language,
    answers: Option<Vec<String>>,
    build_timeout: Option<String>,
}

impl Project {
    /// Reads the manifest of a folder.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        let path = folder.join(MANIFEST);
        if !path.exists() {
            return Err(ProjectError::Missing {
                folder: folder.to_owned(),
            });
        }
        let text =
            regular_file::read_text(&path, WRITTEN).map_err(|cause| ProjectError::Unreadable {
                path: path.clone(),
                cause,
            })?;
        let manifest: Manifest = toml::from_str(&text).map_err(|error| ProjectError::Invalid {
            path: path.clone(),
            mistake: Mistake::of(&text, &error).to_string(),
        })?;
        let wrong = |key: &str, reason: String| ProjectError::Invalid {
            path: path.clone(),
            mistake: format!("`{key}` {reason}"),
        };
        let name = manifest
            .name
            .parse()
            .map_err(|reason| wrong("name", format!("is `{}`: {reason}", manifest.name)))?;
        if !is_version(&manifest.version) {
            let reason = format!("is `{}`: expected one such as 0.1.0", manifest.version);
            return Err(wrong("version", reason));
        }
        let answers = answers(manifest.language, manifest.answers.as_deref())
            .map_err(|reason| wrong("answers", reason))?;
        let build_timeout = build_timeout(manifest.build_timeout.as_deref())
            .map_err(|reason| wrong("build-timeout", reason))?;
        Ok(Self {
            folder: folder.to_owned(),
            name,
            version: manifest.version,
            language: manifest.language,
            answers,
            build_timeout,
        })
    }

    /// The path of the built component.
    pub fn component(&self) -> PathBuf {
        self.folder
            .join("build")
            .join(format!("{}.wasm", self.name))
    }

    /// The path of the scenarios.
    pub fn scenarios(&self) -> PathBuf {
        self.folder.join("scenarios.toml")
    }

    /// What belongs to the interfaces that the policy exports, of what belongs to each of [`QUESTIONS`].
    pub(crate) fn of_answers<T>(&self, each: [T; 5]) -> impl Iterator<Item = (&'static str, T)> {
        let each = QUESTIONS.into_iter().zip(each);
        each.filter(|(question, _)| self.answers.contains(question))
    }

    /// The folder of the generated bindings.
    pub(crate) fn bindings(&self) -> PathBuf {
        self.folder.join("bindings")
    }
}

/// Whether it is three numbers with dots, with an optional suffix after a hyphen or a plus.
fn is_version(version: &str) -> bool {
    let mut parts = version.split(['-', '+']);
    let numbers = parts.next().unwrap_or_default();
    if parts.any(str::is_empty) {
        return false;
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}

fn build_timeout(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else {
        return Ok(DEFAULT_BUILD_TIMEOUT);
    };
    let timeout = parse_duration(text).map(Duration::from_millis);
    timeout
        .ok()
        .filter(|timeout| (Duration::from_secs(1)..=MAX_BUILD_TIMEOUT).contains(timeout))
        .ok_or_else(|| format!("is `{text}`: expected a duration from 1s to 1d, such as \"10m\""))
}

fn answers(language: Language, named: Option<&[String]>) -> Result<Vec<&'static str>, String> {
    let expected = || format!("expected one or more of {}", QUESTIONS.join(", "));
    match (language, named) {
        (Language::Rust, Some(_)) => Err(
            "is not for rust: the SDK exports every interface, with a default for those that you leave out"
                .to_owned(),
        ),
        (Language::Rust, None) => Ok(QUESTIONS.to_vec()),
        (_, None) => Err(format!("is missing: {}", expected())),
        (_, Some([])) => Err(format!("is empty: {}", expected())),
        (_, Some(named)) => match named.iter().find(|name| !QUESTIONS.contains(&name.as_str())) {
            Some(unknown) => Err(format!("has `{unknown}`: {}", expected())),
            None => Ok(QUESTIONS
                .into_iter()
                .filter(|question| named.iter().any(|name| name == question))
                .collect()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(manifest: &str) -> Result<Project, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        let told = |error: ProjectError| {
            let folder = folder.path().display().to_string();
            format!("{:#}", anyhow::Error::from(error)).replace(&folder, "mine")
        };
        Project::open(folder.path()).map_err(told)
    }

    #[test]
    fn a_manifest_describes_a_policy() {
        let project = opened("name = \"my-rule\"\nversion = \"1.2.0-rc.1\"\nlanguage = \"c\"\nanswers = [\"backoff\", \"settings\"]").unwrap();
        assert_eq!(project.language, Language::C);
        assert_eq!(project.answers, ["settings", "backoff"]);
        assert_eq!(project.build_timeout, DEFAULT_BUILD_TIMEOUT);
        assert!(project.component().ends_with("build/my-rule.wasm"));
    }

    #[test]
    fn an_invalid_manifest_is_rejected_with_the_location() {
        for (manifest, expected) in [
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"c\"",
                "`answers` is missing: expected one or more of settings, classifier, backoff, dead-lettering, outage",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"c\"\nanswers = []",
                "`answers` is empty",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"c\"\nanswers = [\"delay\"]",
                "`answers` has `delay`",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"rust\"\nanswers = [\"backoff\"]",
                "`answers` is not for rust",
            ),
            (
                "name = \"a\"\nversion = \"1.0\"\nlanguage = \"rust\"",
                "`version` is `1.0`: expected one such as 0.1.0",
            ),
            (
                "name = \"My Rule\"\nversion = \"1.0.0\"\nlanguage = \"rust\"",
                "`name` is `My Rule`: expected lower-case words",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"cobol\"",
                "line 3, column 12: language: unknown value `cobol`, expected one of `rust`",
            ),
            ("name = \"a\"\nodd = 1", "unknown key `odd`"),
            (
                "name = 5",
                "line 1, column 8: name: expected a text in quotes, not the number 5",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"c\"\nanswers = \"backoff\"",
                "answers: expected a list, such as [\"a\", \"b\"], not the text \"backoff\"",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = 5",
                "language: expected a text in quotes",
            ),
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"rust\"\nbuild-timeout = \"0s\"",
                "`build-timeout` is `0s`: expected a duration from 1s to 1d, such as \"10m\"",
            ),
        ] {
            let refused = opened(manifest).unwrap_err();
            assert!(refused.starts_with("mine/policy.toml"), "{refused}");
            assert!(refused.contains(expected), "{refused}");
            backstop_files::mistake::names_no_type(&refused);
        }
        let nothing = Project::open(Path::new("/nonexistent")).unwrap_err();
        assert!(
            nothing
                .to_string()
                .contains("backstop policy new NAME --lang")
        );
    }
}
