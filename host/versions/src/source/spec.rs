//! A policy as the operator names it, and the policy that is made of what is found there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::settings::Settings;
use backstop_engine::{
    CompilerError, Component, ComponentError, EncodingError, EvaluationError, MissingRole, Part,
    Parts, Policy, PolicyDigest, Prepared, ProbeError, Sandbox, Wanted, probe,
};

use super::{FetchedFile, Location, Source, SourceError};
use crate::{Catalog, SignatureError};

/// One component and its settings, as the operator names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpec {
    /// The component.
    pub source: Source,
    /// Names and values.
    pub settings: Settings,
}

/// A policy as the operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few for each queue, and they are made once"
)]
pub enum PolicySpec {
    /// One component.
    Single(PartSpec),
    /// A component for each question; the host's default where none is named.
    Composed(Parts<PartSpec>),
}

/// Why a policy is not put to work.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It can't be found or read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of its files is not signed by anybody who may.
    #[error("the policy {name} is refused")]
    Signature {
        /// What the operator calls the component.
        name: String,
        /// Why.
        #[source]
        cause: SignatureError,
    },
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
    /// The compiler broke on it, or a host did while it loaded it, within the last day.
    #[error(
        "the policy {name} is refused, as at {}: {why}; it is tried again after a day, or when {} is removed",
        at.rfc3339(),
        path.display()
    )]
    Remembered {
        /// The file, or where its parts come from.
        name: String,
        /// Why.
        why: String,
        /// When.
        at: Timestamp,
        /// The file that remembers it.
        path: PathBuf,
    },
    /// The host failed while it loaded it.
    #[error("the policy {name} is refused: the host failed while it loaded it: {why}")]
    Panicked {
        /// Where its parts come from.
        name: String,
        /// What the host said.
        why: String,
    },
    /// It broke at work in an earlier run, or was taken back by the operator.
    #[error("the policy {name} is refused, since it was taken back: {why}")]
    RolledBack {
        /// Where its parts come from.
        name: String,
        /// Why.
        why: String,
    },
    /// It fails the operator's own scenarios.
    #[error("the policy {name} is refused: {cause}")]
    Scenarios {
        /// Its parts.
        name: String,
        /// Which, and how.
        cause: String,
    },
}

impl PolicyError {
    /// Whether it was given up for something newer, or for the end of the host.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(
            self,
            Self::Component {
                cause: ComponentError::Compiler(CompilerError::Unwanted),
                ..
            }
        )
    }

    /// Whether the same files may be taken at another time: they ran out of time on the clock, which a busy machine makes short, or the process that compiled them was ended.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Probe { cause, .. } => matches!(cause.broken, EvaluationError::OutOfTime(..)),
            Self::Component {
                cause: ComponentError::Compiler(cause),
                ..
            } => cause.is_transient(),
            // Once its day is over, or the file that remembers it is removed.
            Self::Remembered { .. } => true,
            Self::Source(_)
            | Self::Signature { .. }
            | Self::Component { .. }
            | Self::Role(_)
            | Self::Panicked { .. }
            | Self::RolledBack { .. }
            | Self::Scenarios { .. } => false,
        }
    }
}

impl PolicySpec {
    /// Reads, compiles, checks, puts together and probes, once: what comes back is fit to decide.
    pub fn load(&self, sandbox: &Sandbox) -> Result<Policy, PolicyError> {
        let catalog = Catalog::from(sandbox);
        let files = self.look(&catalog, &[], None)?;
        let parts = self.prepare(&catalog, &files, None, &|| true);
        self.put_together(sandbox, parts.map_err(|refused| refused.cause)?)
    }

    /// Where its parts are, in the order of [`Policy::assembled`].
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.parts().map(|part| &part.source)
    }

    /// Where its parts come from, for people.
    pub fn title(&self) -> String {
        let sources: Vec<_> = self.sources().map(ToString::to_string).collect();
        sources.join(" + ")
    }

    /// Whether it means the same bytes for ever.
    pub fn is_pinned(&self) -> bool {
        self.sources().all(Source::is_pinned)
    }

    /// Whether any of it is a file, or a folder of them.
    pub(crate) fn has_files(&self) -> bool {
        self.sources()
            .any(|source| matches!(source.place, Location::Path(_)))
    }

    /// Whether any of it is reached over the network.
    pub fn is_remote(&self) -> bool {
        self.sources().any(Source::is_remote)
    }

    /// Shows each source to `change`.
    pub fn for_each_source(&mut self, mut change: impl FnMut(&mut Source)) {
        match self {
            Self::Single(part) => change(&mut part.source),
            Self::Composed(parts) => parts.iter_mut().for_each(|part| change(&mut part.source)),
        }
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartSpec> {
        let (single, composed) = match self {
            Self::Single(part) => (Some(part), None),
            Self::Composed(parts) => (None, Some(parts)),
        };
        single
            .into_iter()
            .chain(composed.into_iter().flat_map(Parts::iter))
    }

    /// What is there now, a file for each part. `seen` is what was found the last time, or nothing; `within` bounds each look over the network.
    pub(crate) fn look(
        &self,
        catalog: &Catalog,
        seen: &[Arc<FetchedFile>],
        within: Option<Duration>,
    ) -> Result<Vec<Arc<FetchedFile>>, SourceError> {
        self.sources()
            .enumerate()
            .map(|(index, source)| source.look(seen.get(index), catalog.options(within)))
            .collect()
    }

    /// These files, verified and then compiled by a child, where that is done in children. What is compiled already in `kept` is taken from there.
    pub(crate) fn prepare(
        &self,
        catalog: &Catalog,
        files: &[Arc<FetchedFile>],
        kept: Option<&Policy>,
        wanted: Wanted<'_>,
    ) -> Result<Vec<PreparedPart>, Box<RefusedFile>> {
        let missing = Arc::new(FetchedFile::new(Vec::new(), None, None));
        let files = files.iter().chain(std::iter::repeat(&missing));
        let parts = self.parts().zip(files);
        parts
            .map(|(spec, file)| {
                let name = spec.source.to_string();
                let ready = prepared(catalog, &spec.source, &name, file, kept, wanted);
                match ready {
                    Ok(ready) => Ok(PreparedPart {
                        name,
                        file: Arc::clone(file),
                        ready,
                    }),
                    Err(cause) => Err(Box::new(RefusedFile {
                        digest: file.digest,
                        cause,
                    })),
                }
            })
            .collect()
    }

    /// The policy of parts that were prepared, checked to the probe.
    pub(crate) fn put_together(
        &self,
        sandbox: &Sandbox,
        parts: Vec<PreparedPart>,
    ) -> Result<Policy, PolicyError> {
        let mut components = parts.into_iter().map(|part| part.component(sandbox));
        let mut part = |spec: &PartSpec| -> Result<Part, PolicyError> {
            let component = components.next().unwrap_or_else(|| {
                Err(PolicyError::Component {
                    name: spec.source.to_string(),
                    cause: EncodingError::Empty.into(),
                })
            })?;
            Ok(Part {
                component,
                settings: spec.settings.clone(),
            })
        };
        let policy = match self {
            Self::Single(spec) => Policy::single(sandbox, part(spec)?),
            // In the order of `parts`.
            Self::Composed(specs) => {
                let parts = specs.as_ref().try_map(|_, spec| part(spec))?;
                Policy::composed(sandbox, parts)?
            }
        };
        probe::run(&policy).map_err(|cause| PolicyError::Probe {
            name: policy.title(),
            cause,
        })?;
        // Only now: what is refused leaves nothing behind.
        for component in policy.components() {
            component.keep_code(sandbox);
        }
        Ok(policy)
    }
}

/// A file that is not prepared, and why.
pub(crate) struct RefusedFile {
    pub(crate) digest: PolicyDigest,
    pub(crate) cause: PolicyError,
}

/// A part of which a component can be made.
pub(crate) struct PreparedPart {
    name: String,
    file: Arc<FetchedFile>,
    ready: Ready,
}

enum Ready {
    /// In the version that decides now.
    Component(Arc<Component>),
    Prepared(Prepared),
}

impl PreparedPart {
    fn component(self, sandbox: &Sandbox) -> Result<Arc<Component>, PolicyError> {
        match self.ready {
            Ready::Component(component) => Ok(component),
            Ready::Prepared(prepared) => {
                Component::of(sandbox, &self.name, &self.file.bytes, prepared).map_err(|cause| {
                    PolicyError::Component {
                        name: self.name,
                        cause,
                    }
                })
            }
        }
    }
}

/// Verified first, and only then compiled.
fn prepared(
    catalog: &Catalog,
    source: &Source,
    name: &str,
    file: &FetchedFile,
    kept: Option<&Policy>,
    wanted: Wanted<'_>,
) -> Result<Ready, PolicyError> {
    if let Some(keys) = &catalog.keys
        && !matches!(source.place, Location::Builtin(_))
    {
        keys.verify(&file.bytes, file.signature.as_deref())
            .map_err(|cause| PolicyError::Signature {
                name: name.to_owned(),
                cause,
            })?;
    }
    let kept = kept.into_iter().flat_map(Policy::components);
    let mut same = kept.filter(|kept| kept.digest() == file.digest && kept.name() == name);
    if let Some(component) = same.next() {
        return Ok(Ready::Component(Arc::clone(component)));
    }
    Component::prepare(&catalog.sandbox, &file.bytes, wanted)
        .map(Ready::Prepared)
        .map_err(|cause| PolicyError::Component {
            name: name.to_owned(),
            cause,
        })
}

/// Loads the policy that `name` means, with these settings: one that never changes.
pub fn load(
    sandbox: &Sandbox,
    name: &str,
    settings: &[(&str, &str)],
) -> Result<Arc<Policy>, PolicyError> {
    let source = Source::parse(name, Path::new("."))?;
    let settings = settings.iter().copied().collect();
    PolicySpec::Single(PartSpec { source, settings })
        .load(sandbox)
        .map(Arc::new)
}

impl From<Source> for PolicySpec {
    fn from(source: Source) -> Self {
        Self::Single(PartSpec {
            source,
            settings: Settings::new(),
        })
    }
}
