//! The project itself: documents, crates and bundled files.

mod carried;
mod commands;
mod crates;
mod docs;
mod keys;
mod map;
mod names;
mod picture;
mod rust_worker;
