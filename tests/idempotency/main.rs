//! Work that is done once for each key: records that the real libraries of Powertools read and write, and owners that are killed, paused and cut off.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod generated;
mod keys;
mod owners;
mod powertools;
mod processes;
mod records;
