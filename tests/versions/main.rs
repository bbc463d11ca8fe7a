//! Versions of a policy: sources, signatures, swaps in a running host, and roll-backs.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod artifact;
mod buckets;
mod control;
mod registry;
mod registry_trust;
mod signatures;
mod sources;
mod swap;
mod under_load;
mod versions;
