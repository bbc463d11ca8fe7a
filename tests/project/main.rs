//! The project itself: documents, crates and bundled files.

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
mod rust_worker;
mod sleeps;
