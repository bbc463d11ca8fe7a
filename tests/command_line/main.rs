//! The `backstop` command as a person uses it.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod cli;
mod doctor;
mod hostile_text;
mod init;
mod replay;
mod shells;
mod storm;
mod terminal;
mod why;
