//! A fetched policy file.

use std::sync::Arc;

use backstop_engine::PolicyDigest;

/// A file with its digest and, if requested, its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchedFile {
    /// The content.
    pub(crate) bytes: Arc<[u8]>,
    /// The digest of the content.
    pub(crate) digest: PolicyDigest,
    /// The detached signature, if one was requested and exists.
    pub(crate) signature: Option<String>,
    /// The source's own name for this version of the file: an entity tag, or the digest of a manifest.
    pub(crate) tag: Option<String>,
}

impl FetchedFile {
    pub(crate) fn new(bytes: Vec<u8>, signature: Option<String>, tag: Option<String>) -> Self {
        Self {
            digest: PolicyDigest::of(&bytes),
            bytes: bytes.into(),
            signature,
            tag,
        }
    }
}
