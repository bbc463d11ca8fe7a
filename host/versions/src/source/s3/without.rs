//! A type without values, for a build without the feature `s3`, in which every fetch is an error.

/// Why a request to S3 fails: never, since this build sends none.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BucketError {}
