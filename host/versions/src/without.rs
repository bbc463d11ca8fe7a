//! In place of the sources that this build leaves out: types that have no values.

/// Without the feature `s3`.
#[cfg(not(feature = "s3"))]
pub mod bucket {
    /// Why a bucket does not give or take an object: never, since no bucket is asked.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum BucketError {}
}

/// Without the feature `oci`.
#[cfg(not(feature = "oci"))]
pub mod registry {
    use std::fmt;

    /// Why a registry does not give or take a policy: never, since no registry is asked.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum RegistryError {}

    /// Names an artifact of a registry: there is none.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Reference {}

    impl Reference {
        /// Its pin.
        pub fn digest(&self) -> Option<&str> {
            match *self {}
        }
    }

    impl fmt::Display for Reference {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }
}
