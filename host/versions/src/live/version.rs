//! Versions of a policy: their identity, and the data of the previous and the refused one.

use std::sync::Arc;

use backstop_core::failure::Timestamp;
use backstop_engine::{Policy, PolicyDigest};

use crate::signature::SignatureError;
use crate::source::FetchedFile;
use crate::spec::PolicySpec;
use crate::store::StoredFile;

/// The identity of a version: the digests of its files, their signatures if these are required, and the digest of the operator's scenarios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) digests: Vec<PolicyDigest>,
    signatures: Vec<Option<String>>,
    check: Option<PolicyDigest>,
}

/// Whether a roll-back is immediate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RollBackCost {
    /// Another thread is changing the version.
    Busy,
    /// The previous version is loaded, or there is none.
    None,
    /// The previous version must be compiled first.
    Compile,
}

/// The outcome of [`State::roll_back`](super::state::State::roll_back).
pub(super) enum Restore {
    /// The previous version was loaded and is active now.
    Done(Restored),
    /// There is no previous version, or the active version is not the expected one.
    NoPrevious,
    /// The previous version must be loaded from these files and then passed to [`State::restore`](super::state::State::restore).
    Load {
        active: Arc<Policy>,
        files: Vec<StoredFile>,
    },
}

/// The versions of a roll-back.
pub(super) struct Restored {
    pub(super) from: Arc<Policy>,
    pub(super) to: Arc<Policy>,
}

impl Version {
    /// `check` is the digest of the operator's scenarios.
    pub(super) fn of_files(files: &[Arc<FetchedFile>], check: Option<PolicyDigest>) -> Self {
        Self {
            digests: digests(files),
            signatures: files.iter().map(|file| file.signature.clone()).collect(),
            check,
        }
    }

    /// A version that was active, regardless of signatures and scenarios.
    pub(super) fn of_digests(digests: Vec<PolicyDigest>) -> Self {
        Self {
            digests,
            signatures: Vec::new(),
            check: None,
        }
    }
}

/// The good version before the active one.
pub(super) enum Previous {
    None,
    /// Can be activated at once.
    Loaded(Arc<Policy>, Vec<StoredFile>),
    /// From an earlier run: must be compiled first.
    Stored(Vec<StoredFile>),
}

/// The last version that was refused or rolled back. It is kept so that the version is reported and tried only once.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) version: Version,
    pub(super) reason: String,
    pub(super) kind: RefusalKind,
}

/// When the parts of a policy were signed, by the signatures that `signed-for` requires. A part without one has no time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NewestSignatures {
    /// The files of the active version, which is never refused as too old.
    active: Vec<PolicyDigest>,
    /// For each part, the newest time of a version that was active.
    times: Vec<Option<Timestamp>>,
}

impl NewestSignatures {
    /// Those of a policy whose active version has these files.
    pub(super) fn of(active: &[StoredFile], times: &[Option<Timestamp>]) -> Self {
        Self {
            active: digests_of(active),
            times: times.to_vec(),
        }
    }

    /// Whether the part with this index may become active, as far as its time is concerned.
    pub(super) fn check(
        &self,
        index: usize,
        file: &FetchedFile,
        at: Option<Timestamp>,
    ) -> Result<(), SignatureError> {
        let newest = self.times.get(index).copied().flatten();
        match (at, newest) {
            (Some(at), Some(newest))
                if at < newest && self.active.get(index) != Some(&file.digest) =>
            {
                Err(SignatureError::Older { at, newest })
            }
            _ => Ok(()),
        }
    }
}

/// The later time of each part.
pub(super) fn latest(
    old: &[Option<Timestamp>],
    new: &[Option<Timestamp>],
) -> Vec<Option<Timestamp>> {
    let length = old.len().max(new.len());
    let at = |times: &[Option<Timestamp>], index| times.get(index).copied().flatten();
    (0..length)
        .map(|index| at(old, index).max(at(new, index)))
        .collect()
}

/// What happens to a refused version when the source still has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// It is not tried again.
    Invalid,
    /// It is tried at the next check: a busy machine may have been the cause.
    Transient,
    /// It is not tried again, not even at the next start: it failed while it was active, or the operator rolled it back.
    RolledBack,
}

impl Previous {
    /// The version, for people. `spec` is the policy that it belongs to.
    pub(super) fn title(&self, spec: &PolicySpec) -> Option<String> {
        match self {
            Self::None => None,
            Self::Loaded(policy, _) => Some(policy.title()),
            Self::Stored(files) => {
                let parts = spec.sources().zip(files);
                let parts =
                    parts.map(|(source, file)| format!("{source} ({})", file.digest.short()));
                Some(parts.collect::<Vec<_>>().join(" + "))
            }
        }
    }

    pub(super) fn files(&self) -> &[StoredFile] {
        match self {
            Self::None => &[],
            Self::Loaded(_, files) | Self::Stored(files) => files,
        }
    }
}

/// For people: the digests of the files, if they could be read, and the reason.
impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version.digests.as_slice() {
            [] => f.write_str(&self.reason),
            digests => write!(f, "{}: {}", short(digests), self.reason),
        }
    }
}

impl Refused {
    pub(super) fn is_rolled_back(&self) -> bool {
        self.kind == RefusalKind::RolledBack
    }
}

pub(super) fn digests(files: &[Arc<FetchedFile>]) -> Vec<PolicyDigest> {
    files.iter().map(|file| file.digest).collect()
}

/// The digests of stored files.
pub(super) fn digests_of(files: &[StoredFile]) -> Vec<PolicyDigest> {
    files.iter().map(|file| file.digest).collect()
}

pub(super) fn stored(files: &[Arc<FetchedFile>]) -> Vec<StoredFile> {
    files.iter().map(StoredFile::from).collect()
}

/// The digests of a version's files, for people.
pub(super) fn short(digests: &[PolicyDigest]) -> String {
    let digests: Vec<_> = digests.iter().map(PolicyDigest::short).collect();
    digests.join(" + ")
}
