//! Where a policy comes from: what the operator names, and the policy that is made of it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    Broken, Component, ComponentError, MissingRole, Part, Policy, PolicyDigest, ProbeError,
    Sandbox, builtin, probe,
};

/// Names one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One of the four that the host carries.
    Builtin(&'static str),
    /// A file: a component, a core module or text.
    File(PathBuf),
}

/// A name that means no component, or a component that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither a built-in policy nor a path.
    #[error("there is no built-in policy `{name}`: expected one of {}, or a path such as ./{name}.wasm", builtin::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was named.
        name: String,
    },
    /// A place that this version does not load from.
    #[error("`{name}` names a remote policy: this version loads built-in policies and files")]
    Remote {
        /// What was named.
        name: String,
    },
    /// The file can't be read.
    #[error("can't read the policy {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}

impl Source {
    /// The component that `name` means: one of the built-in policies, or a path, which has a separator or ends in `.wasm` or `.wat`. A relative path is taken from `folder`.
    pub fn parse(name: &str, folder: &Path) -> Result<Self, SourceError> {
        if name.contains("://") {
            return Err(SourceError::Remote {
                name: name.to_owned(),
            });
        }
        if let Some(known) = builtin::names().find(|known| *known == name) {
            return Ok(Self::Builtin(known));
        }
        let path = Path::new(name);
        let is_wasm = path
            .extension()
            .is_some_and(|ending| ending == "wasm" || ending == "wat");
        if is_wasm || name.contains(std::path::is_separator) {
            return Ok(Self::File(folder.join(path)));
        }
        Err(SourceError::Unknown {
            name: name.to_owned(),
        })
    }

    /// The whole file.
    pub(crate) fn read(&self) -> Result<Vec<u8>, SourceError> {
        match self {
            Self::Builtin(name) => Ok(builtin::bytes(name).unwrap_or_default().to_vec()),
            Self::File(path) => std::fs::read(path).map_err(|cause| SourceError::Unreadable {
                path: path.clone(),
                cause,
            }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// One component and its settings, as the operator names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpec {
    /// The component.
    pub source: Source,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

/// A policy as the operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySpec {
    /// One component.
    Whole(PartSpec),
    /// A component for each question; the host's default where none is named.
    Parts {
        /// Says what kind of failure an error is.
        classifier: Option<PartSpec>,
        /// Says how long to wait.
        backoff: Option<PartSpec>,
        /// Says whether there is a next attempt.
        dead_lettering: Option<PartSpec>,
    },
}

/// Why a policy is not put to work.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It can't be found or read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of its files is no policy.
    #[error("the policy {name} is refused")]
    Component {
        /// What the operator calls the component.
        name: String,
        /// Why.
        #[source]
        cause: ComponentError,
    },
    /// One of its parts is in the wrong place.
    #[error("the policy is refused")]
    Role(#[from] MissingRole),
    /// It does not stand the probe.
    #[error("the policy {name} is refused")]
    Probe {
        /// Its parts.
        name: String,
        /// Why.
        #[source]
        cause: ProbeError,
    },
}

impl PolicyError {
    /// Whether the same files may be taken at another time: they ran out of time on the clock, which a busy machine makes short.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Probe {
                cause: ProbeError {
                    broken: Broken::OutOfTime(..),
                    ..
                },
                ..
            }
        )
    }
}

/// The files of a policy as they were read, not yet looked into.
pub(super) struct Files(Vec<Vec<u8>>);

impl Files {
    /// What tells these files from others.
    pub(super) fn digests(&self) -> Vec<PolicyDigest> {
        self.0.iter().map(|file| PolicyDigest::of(file)).collect()
    }
}

impl PolicySpec {
    /// Reads, compiles, checks, puts together and probes: what comes back is fit to decide.
    pub fn load(&self, sandbox: &Sandbox) -> Result<Policy, PolicyError> {
        self.make(sandbox, &self.read()?)
    }

    /// The files to watch for new versions.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts().filter_map(|part| match &part.source {
            Source::File(path) => Some(path.as_path()),
            Source::Builtin(_) => None,
        })
    }

    /// Shows each source to `change`.
    pub(crate) fn for_each_source(&mut self, mut change: impl FnMut(&mut Source)) {
        match self {
            Self::Whole(part) => change(&mut part.source),
            Self::Parts {
                classifier,
                backoff,
                dead_lettering,
            } => [classifier, backoff, dead_lettering]
                .into_iter()
                .flatten()
                .for_each(|part| change(&mut part.source)),
        }
    }

    /// In the order of [`Policy::assembled`].
    fn parts(&self) -> impl Iterator<Item = &PartSpec> {
        let parts = match self {
            Self::Whole(part) => [Some(part), None, None],
            Self::Parts {
                classifier,
                backoff,
                dead_lettering,
            } => [
                classifier.as_ref(),
                dead_lettering.as_ref(),
                backoff.as_ref(),
            ],
        };
        parts.into_iter().flatten()
    }

    pub(super) fn read(&self) -> Result<Files, SourceError> {
        self.parts()
            .map(|part| part.source.read())
            .collect::<Result<_, _>>()
            .map(Files)
    }

    pub(super) fn make(&self, sandbox: &Sandbox, files: &Files) -> Result<Policy, PolicyError> {
        let mut files = files.0.iter();
        let mut compile = |spec: &PartSpec| {
            let name = spec.source.to_string();
            let file = files.next().map(Vec::as_slice).unwrap_or_default();
            match Component::load(sandbox, &name, file) {
                Ok(component) => Ok(Part {
                    component,
                    settings: spec.settings.clone(),
                }),
                Err(cause) => Err(PolicyError::Component { name, cause }),
            }
        };
        let policy = match self {
            Self::Whole(spec) => Policy::whole(sandbox, compile(spec)?),
            Self::Parts {
                classifier,
                backoff,
                dead_lettering,
            } => {
                let classifier = classifier.as_ref().map(&mut compile).transpose()?;
                let dead_lettering = dead_lettering.as_ref().map(&mut compile).transpose()?;
                let backoff = backoff.as_ref().map(&mut compile).transpose()?;
                Policy::assembled(sandbox, classifier, backoff, dead_lettering)?
            }
        };
        probe::run(&policy).map_err(|cause| PolicyError::Probe {
            name: policy.title(),
            cause,
        })?;
        Ok(policy)
    }
}

impl From<Source> for PolicySpec {
    fn from(source: Source) -> Self {
        Self::Whole(PartSpec {
            source,
            settings: Vec::new(),
        })
    }
}

/// A policy that never changes, for tests and benchmarks.
impl Policy {
    /// Loads the policy that `name` means, with these settings.
    pub fn load(
        sandbox: &Sandbox,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<Arc<Self>, PolicyError> {
        let source = Source::parse(name, Path::new("."))?;
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        PolicySpec::Whole(PartSpec { source, settings })
            .load(sandbox)
            .map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_a_built_in_policy_or_a_path() {
        let folder = Path::new("/etc/backstop");
        for (name, expected) in [
            ("full-jitter", Some(Source::Builtin("full-jitter"))),
            (
                "orders.wasm",
                Some(Source::File("/etc/backstop/orders.wasm".into())),
            ),
            (
                "./full-jitter",
                Some(Source::File("/etc/backstop/./full-jitter".into())),
            ),
            ("/opt/p.wat", Some(Source::File("/opt/p.wat".into()))),
            ("ful-jitter", None),
            ("s3://bucket/p.wasm", None),
            ("", None),
        ] {
            assert_eq!(Source::parse(name, folder).ok(), expected, "{name}");
        }
    }
}
