//! Versions of a policy: sources, signatures, swaps in a running host, and roll-backs.

mod buckets;
mod control;
mod registry;
mod registry_trust;
mod signatures;
mod sources;
mod swap;
mod under_load;
mod versions;
