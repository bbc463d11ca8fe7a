//! The project itself: its documents, its crates and the files that they carry.

mod carried;
mod commands;
mod crates;
mod docs;
mod map;
mod picture;
mod rust_worker;
