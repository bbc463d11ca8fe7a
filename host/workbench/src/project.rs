//! A policy's folder and its `policy.toml`: what it is called, what it is written in, which questions it answers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_backoff::parse_duration;
use serde::Deserialize;

use super::language::Language;
use backstop_files::mistake::Mistake;
use backstop_files::regular_file::{self, WRITTEN};

/// The file that makes a folder a policy's.
pub const MANIFEST: &str = "policy.toml";

/// How long a build may take, where the manifest does not say it: the first one in Rust fetches a toolchain.
const BUILD_TIMEOUT: Duration = Duration::from_mins(10);

/// The longest that it may say.
const LONGEST_BUILD: Duration = Duration::from_hours(24);

/// The questions of the contract, as `answers` names them.
pub(super) const QUESTIONS: [&str; 4] = ["settings", "classifier", "backoff", "dead-lettering"];

/// A policy's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Where it is.
    pub folder: PathBuf,
    /// What the component is called.
    pub name: PolicyName,
    /// Its version, as its metadata tells it.
    pub version: String,
    /// What it is written in.
    pub language: Language,
    /// The interfaces that it exports, in the order of the contract.
    pub answers: Vec<&'static str>,
    /// How long a build may take, from a second to a day.
    pub build_timeout: Duration,
}

/// Why a folder is not taken for a policy's.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// No manifest.
    #[error(
        "{} is no policy's folder: it has no {MANIFEST}; make one with `backstop policy new NAME --lang LANGUAGE`",
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
    /// The manifest is not TOML, or says something unknown.
    #[error("{}: {mistake}", path.display())]
    Invalid {
        /// The manifest.
        path: PathBuf,
        /// Where, and what would be right.
        mistake: Mistake,
    },
    /// One of its values makes no sense.
    #[error("{}: `{key}` {reason}", path.display())]
    Value {
        /// The manifest.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What is wrong with it and what would be right.
        reason: String,
    },
}

/// The name of a policy: lower-case words joined by hyphens, at most 64 bytes, so that every toolchain takes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyName(String);

impl PolicyName {
    /// With underscores, where a language allows no hyphens.
    pub(super) fn as_identifier(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl AsRef<str> for PolicyName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for PolicyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if ["backstop-policy", "backstop-backoff"].contains(&name) {
            return Err("it is the name of a crate of the SDK; expected another".to_owned());
        }
        let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
        if begins_well && name.len() <= 64 && name.split('-').all(is_word) {
            return Ok(Self(name.to_owned()));
        }
        Err("expected lower-case words joined by hyphens, such as card-payments, of at most 64 letters and digits".to_owned())
    }
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
            mistake: Mistake::of(&text, &error),
        })?;
        let wrong = |key, reason| ProjectError::Value {
            path: path.clone(),
            key,
            reason,
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

    /// The component that building makes.
    pub fn component(&self) -> PathBuf {
        self.folder
            .join("build")
            .join(format!("{}.wasm", self.name))
    }

    /// What the policy has to answer.
    pub fn scenarios(&self) -> PathBuf {
        self.folder.join("scenarios.toml")
    }

    /// The folder for everything that is made anew by each build.
    pub(super) fn bindings(&self) -> PathBuf {
        self.folder.join("bindings")
    }
}

/// Three numbers with dots, and what may follow them after a hyphen or a plus.
fn is_version(version: &str) -> bool {
    let mut parts = version.split(['-', '+']);
    let numbers = parts.next().unwrap_or_default();
    if parts.any(str::is_empty) {
        return false;
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}

fn build_timeout(told: Option<&str>) -> Result<Duration, String> {
    let Some(told) = told else {
        return Ok(BUILD_TIMEOUT);
    };
    let span = parse_duration(told).map(Duration::from_millis);
    span.ok()
        .filter(|span| (Duration::from_secs(1)..=LONGEST_BUILD).contains(span))
        .ok_or_else(|| format!("is `{told}`: expected a span from 1s to 1d, such as \"10m\""))
}

fn answers(language: Language, named: Option<&[String]>) -> Result<Vec<&'static str>, String> {
    let expected = || format!("expected one or more of {}", QUESTIONS.join(", "));
    match (language, named) {
        (Language::Rust, Some(_)) => Err(
            "does not go with rust: the SDK answers every question, by its default where you write none"
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
    fn a_manifest_says_what_a_folder_is() {
        let project = opened("name = \"my-rule\"\nversion = \"1.2.0-rc.1\"\nlanguage = \"c\"\nanswers = [\"backoff\", \"settings\"]").unwrap();
        assert_eq!(project.language, Language::C);
        assert_eq!(project.answers, ["settings", "backoff"]);
        assert_eq!(project.build_timeout, BUILD_TIMEOUT);
        assert!(project.component().ends_with("build/my-rule.wasm"));
    }

    #[test]
    fn a_manifest_without_sense_is_refused_with_the_place() {
        for (manifest, expected) in [
            (
                "name = \"a\"\nversion = \"1.0.0\"\nlanguage = \"c\"",
                "`answers` is missing: expected one or more of settings, classifier, backoff, dead-lettering",
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
                "`answers` does not go with rust",
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
                "`build-timeout` is `0s`: expected a span from 1s to 1d, such as \"10m\"",
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

    #[test]
    fn a_name_is_one_that_every_toolchain_takes() {
        for name in ["a", "card-payments", "v2", "a1-b2"] {
            assert!(name.parse::<PolicyName>().is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "1a", "a_b", "a/b", "..", "é"] {
            assert!(name.parse::<PolicyName>().is_err(), "{name}");
        }
        assert!("a".repeat(65).parse::<PolicyName>().is_err());
    }
}
