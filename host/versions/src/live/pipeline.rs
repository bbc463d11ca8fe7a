//! The pipeline that every version of a policy goes through: fetch, verify, load, validate. [`State::activate`](super::state::State::activate) is the last step. The startup, an update check and a roll-back are its three callers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_engine::{
    Component, ComponentError, EncodingError, Part, Policy, PolicyDigest, Prepared, Sandbox,
    Wanted, probe,
};

use super::refusals::{Applicable, Refusals};
use super::version::NewestSignatures;
use crate::catalog::Catalog;
use crate::error::PolicyError;
use crate::source::{FetchedFile, Location, Source, SourceError};
use crate::spec::{PartSpec, PolicySpec};

/// An additional requirement of the operator for every version.
#[derive(Clone)]
pub struct Check {
    /// Identifies the check. Policies that differ only in their check have separate state in the store.
    pub name: String,
    /// Why a version is refused, if it is.
    pub passes: Arc<Passes>,
    /// The digest of the current requirement. When it changes, a refused version is tried again.
    pub digest: Arc<dyn Fn() -> Option<PolicyDigest> + Send + Sync>,
}

/// See [`Check::passes`].
pub type Passes = dyn Fn(&Policy) -> Result<(), String> + Send + Sync;

/// The file of each part of a policy, in the order in which the parts are evaluated.
pub(super) type Files = Vec<Arc<FetchedFile>>;

/// How a version is loaded.
#[derive(Clone, Copy)]
pub(super) struct Pipeline<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) spec: &'a PolicySpec,
    pub(super) check: Option<&'a Check>,
}

/// A verified part. It is compiled if a child process does that.
struct PreparedPart {
    name: String,
    file: Arc<FetchedFile>,
    prepared: Prepared,
}

impl<'a> Pipeline<'a> {
    /// The key of the policy's state in the store.
    pub(super) fn identity(&self) -> String {
        let check = self.check.map_or("", |check| check.name.as_str());
        self.spec.identity(check)
    }

    /// Fetches the current files. `known` are those of the last fetch, if any; one that is signed too early is fetched again, since it may have been signed again. `within` is the time limit for each source outside this machine.
    pub(super) fn fetch(
        &self,
        known: &[Arc<FetchedFile>],
        newest: &NewestSignatures,
        within: Option<Duration>,
    ) -> Result<Files, SourceError> {
        let sources = self.spec.sources().enumerate();
        sources
            .map(|(index, source)| {
                let is_new = |file: &&Arc<FetchedFile>| self.is_new(index, source, file, newest);
                let known = known.get(index).filter(is_new);
                source.fetch_if_changed(known, self.catalog.options(within))
            })
            .collect()
    }

    /// Refuses files of a source that were signed earlier than a version that was active, if `signed-for` requires signatures with a time. A pin says which version is wanted, whenever it was signed.
    pub(super) fn check_age(
        &self,
        files: &[Arc<FetchedFile>],
        newest: &NewestSignatures,
    ) -> Result<(), PolicyError> {
        let sources = self.spec.sources().zip(files).enumerate();
        for ((index, (source, file)), at) in sources.zip(self.signed_at(files)) {
            if source.is_pinned() {
                continue;
            }
            newest
                .check(index, file, at)
                .map_err(|cause| PolicyError::Signature {
                    name: source.to_string(),
                    cause,
                })?;
        }
        Ok(())
    }

    /// When these files were signed, if `signed-for` requires signatures with a time. A time that has not come yet is now: a clock that was wrong once keeps no later version away.
    pub(super) fn signed_at(&self, files: &[Arc<FetchedFile>]) -> Vec<Option<Timestamp>> {
        let keys = self.catalog.keys.as_ref();
        let Some(keys) = keys.filter(|keys| keys.is_for_one_policy()) else {
            return files.iter().map(|_| None).collect();
        };
        let at = |file: &Arc<FetchedFile>| {
            let signed = keys.verify(&file.bytes, file.signature.as_deref());
            Some(signed.ok()?.at?.min(clock::now()))
        };
        files.iter().map(at).collect()
    }

    fn is_new(
        &self,
        index: usize,
        source: &Source,
        file: &Arc<FetchedFile>,
        newest: &NewestSignatures,
    ) -> bool {
        let at = self.signed_at(std::slice::from_ref(file));
        let at = at.first().copied().flatten();
        source.is_pinned() || newest.check(index, file, at).is_ok()
    }

    /// Verifies, compiles, loads and validates these files. Any failure, even a panic, refuses the version; failures that cost time are remembered. Components of `active` are reused. Compilation ends early when the version is no longer `wanted`.
    pub(super) fn run(
        &self,
        files: &[Arc<FetchedFile>],
        active: Option<&Policy>,
        applicable: Applicable,
        wanted: Wanted<'_>,
    ) -> Result<Policy, PolicyError> {
        let refusals = Refusals::of(self.catalog, self.spec.title(), &self.identity(), files);
        refusals.check(applicable)?;
        self.verify(files)?;
        let parts = self.compile(files, active, &refusals, wanted)?;
        // From here on, the file is in this process and may crash it.
        let mark = refusals.mark();
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            let policy = self.load(parts)?;
            self.validate(&policy)?;
            Ok(policy)
        }));
        drop(mark);
        let policy = loaded.unwrap_or_else(|panic| {
            Err(PolicyError::Panicked {
                name: self.spec.title(),
                why: panic_message(&*panic),
            })
        })?;
        refusals.forget();
        Ok(policy)
    }

    /// Verifies the signatures if they are required, before anything of a file is parsed.
    fn verify(&self, files: &[Arc<FetchedFile>]) -> Result<(), PolicyError> {
        let Some(keys) = &self.catalog.keys else {
            return Ok(());
        };
        for (source, file) in self.spec.sources().zip(files) {
            if matches!(source.location, Location::Builtin(_)) {
                continue;
            }
            keys.verify(&file.bytes, file.signature.as_deref())
                .map(drop)
                .map_err(|cause| PolicyError::Signature {
                    name: source.to_string(),
                    cause,
                })?;
        }
        Ok(())
    }

    /// Compiles the files in a child process, if the sandbox uses one.
    fn compile(
        &self,
        files: &[Arc<FetchedFile>],
        active: Option<&Policy>,
        refusals: &Refusals<'_>,
        wanted: Wanted<'_>,
    ) -> Result<Vec<PreparedPart>, PolicyError> {
        let mut parts = Vec::new();
        for (source, file) in self.spec.sources().zip(files) {
            let name = source.to_string();
            let loaded = active.into_iter().flat_map(Policy::components);
            let mut same = loaded.filter(|it| it.digest() == file.digest && it.name() == name);
            let prepared = match same.next() {
                Some(component) => Ok(Prepared::Loaded(Arc::clone(component))),
                None => Component::prepare(&self.catalog.sandbox, &file.bytes, wanted),
            };
            let prepared = prepared.map_err(|cause| {
                if let ComponentError::Compiler(cause) = &cause {
                    refusals.remember(file.digest, cause);
                }
                PolicyError::Component {
                    name: name.clone(),
                    cause,
                }
            })?;
            let file = Arc::clone(file);
            parts.push(PreparedPart {
                name,
                file,
                prepared,
            });
        }
        Ok(parts)
    }

    /// Loads the components into this process and composes the policy.
    fn load(&self, parts: Vec<PreparedPart>) -> Result<Policy, PolicyError> {
        let sandbox = &self.catalog.sandbox;
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
        match self.spec {
            PolicySpec::Single(spec) => Ok(Policy::single(sandbox, part(spec)?)),
            PolicySpec::Composed(specs) => {
                let parts = specs.as_ref().try_map(|_, spec| part(spec))?;
                Ok(Policy::composed(sandbox, parts)?)
            }
        }
    }

    /// Runs the probe, then the operator's check. The compiled code of a policy that passes the probe is stored.
    fn validate(&self, policy: &Policy) -> Result<(), PolicyError> {
        probe::run(policy).map_err(|cause| PolicyError::Probe {
            name: policy.title(),
            cause,
        })?;
        for component in policy.components() {
            component.keep_code(&self.catalog.sandbox);
        }
        let passed = self.check.map_or(Ok(()), |check| (check.passes)(policy));
        passed.map_err(|cause| PolicyError::Scenarios {
            name: policy.title(),
            cause,
        })
    }
}

impl PreparedPart {
    fn component(self, sandbox: &Sandbox) -> Result<Arc<Component>, PolicyError> {
        let name = self.name;
        Component::of(sandbox, &name, &self.file.bytes, self.prepared)
            .map_err(|cause| PolicyError::Component { name, cause })
    }
}

impl PolicySpec {
    /// Loads the policy once: it is fetched, compiled, loaded and validated, and never changes.
    pub fn load(&self, sandbox: &Sandbox) -> Result<Policy, PolicyError> {
        let pipeline = Pipeline {
            catalog: &Catalog::from(sandbox),
            spec: self,
            check: None,
        };
        let files = pipeline.fetch(&[], &NewestSignatures::default(), None)?;
        pipeline.run(&files, None, Applicable::None, &|| true)
    }
}

/// Loads the policy with this name and these settings once. It never changes.
///
/// ```
/// use backstop_engine::{Limits, Sandbox};
///
/// let sandbox = Sandbox::new(Limits::default())?;
/// let policy = backstop_versions::load(&sandbox, "linear", &[("base", "2s")])?;
/// assert_eq!(policy.name(), "linear");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// The message of a panic, on one line.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    one_line(text.unwrap_or("a panic"))
}
