//! The `backstop` command as a person uses it.

mod cli;
mod doctor;
mod hostile_text;
mod terminal;
mod why;
