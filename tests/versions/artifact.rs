//! Policies as artifacts of a registry.

use std::collections::BTreeMap;

use backstop_versions::{Package, Reference};

/// Where a policy is in a registry.
pub(crate) fn reference(url: &str) -> Reference {
    url.trim_start_matches("oci://").parse().unwrap()
}

/// A policy as an artifact.
pub(crate) fn package(file: Vec<u8>) -> Package {
    let created = jiff::Timestamp::UNIX_EPOCH;
    Package::policy(file, BTreeMap::new(), created).unwrap()
}
