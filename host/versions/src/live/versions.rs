//! What is known of a policy's versions: the one that decides, the one before, and the one that is not to be tried again.

use std::sync::Arc;

use super::super::source::FetchedFile;
use super::super::store::StoredFile;
use super::super::{Policy, PolicyDigest, PolicySpec};
use super::Check;
use backstop_core::failure::Timestamp;

/// What is known of the versions.
pub(super) struct Versions {
    pub(super) live: Vec<StoredFile>,
    pub(super) before: Before,
    pub(super) refused: Option<Refused>,
    /// What was said of the source when it could not be read.
    pub(super) away: Option<String>,
    pub(super) since: Timestamp,
    /// When the source was last looked at.
    pub(super) looked: Timestamp,
    /// When all this was last written down.
    pub(super) remembered: Timestamp,
}

/// The good version before the one that decides.
pub(super) enum Before {
    None,
    /// Ready to decide.
    Ready(Arc<Policy>, Vec<StoredFile>),
    /// StoredFile from an earlier run, to be compiled when it is needed.
    Stored(Vec<StoredFile>),
}

/// The version that was last found to be no good, so that it is told and tried once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) version: Version,
    pub(super) why: String,
    pub(super) kind: Kind,
}

/// What there is to do about a version that is no good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing, until there is another.
    Refused,
    /// To try it again: a busy machine may have been to blame.
    Transient,
    /// Nothing, until there is another, the next start included: it was at work and broke, or the operator wanted it back.
    RolledBack,
}

impl Refused {
    pub(super) fn is_taken_back(&self) -> bool {
        self.kind == Kind::RolledBack
    }
}

/// What tells one version from another: the digests of its files, their signatures where those are asked for, and what the operator asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) digests: Vec<PolicyDigest>,
    pub(super) signatures: Vec<Option<String>>,
    pub(super) check: Option<PolicyDigest>,
}

impl Version {
    pub(super) fn of(files: &[Arc<FetchedFile>], check: Option<&Check>) -> Self {
        Self {
            signatures: files.iter().map(|file| file.signature.clone()).collect(),
            check: check.and_then(|check| (check.digest)()),
            ..Self::at_work(digests(files))
        }
    }

    /// A version that was at work: under whatever signature, and whatever is asked of it.
    pub(super) fn at_work(digests: Vec<PolicyDigest>) -> Self {
        Self {
            digests,
            signatures: Vec::new(),
            check: None,
        }
    }
}

pub(super) fn digests(files: &[Arc<FetchedFile>]) -> Vec<PolicyDigest> {
    files.iter().map(|file| file.digest).collect()
}

pub(super) fn kept(files: &[Arc<FetchedFile>]) -> Vec<StoredFile> {
    files.iter().map(StoredFile::from).collect()
}

impl Before {
    pub(super) fn kept(&self) -> &[StoredFile] {
        match self {
            Self::None => &[],
            Self::Ready(_, kept) | Self::Stored(kept) => kept,
        }
    }

    /// For people; `spec` tells where the parts come from.
    pub(super) fn title(&self, spec: &PolicySpec) -> Option<String> {
        match self {
            Self::None => None,
            Self::Ready(policy, _) => Some(policy.title()),
            Self::Stored(kept) => {
                let parts = spec.sources().zip(kept);
                let parts = parts.map(|(source, kept)| format!("{source} ({})", kept.short()));
                Some(parts.collect::<Vec<_>>().join(" + "))
            }
        }
    }
}
