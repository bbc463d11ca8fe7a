//! The project itself: documents, crates and bundled files.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod arrows;
mod carried;
mod commands;
mod crates;
mod docs;
mod keys;
mod map;
mod modules;
mod names;
mod picture;
mod published;
mod rust_programs;
mod sleeps;
mod threats;
mod workers;
