//! Versions of a policy: where they come from, who signed them, how a running host changes them, and how it goes back.

mod buckets;
mod control;
mod registry;
mod signatures;
mod sources;
mod swap;
mod under_load;
mod versions;
