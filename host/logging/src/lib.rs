//! Logging that never delays a message ([`BackgroundWriter`]) and lines that nobody can forge ([`EscapedFields`], [`EscapedJson`]).

mod background_writer;
mod escaped_fields;

pub use background_writer::BackgroundWriter;
pub use escaped_fields::{EscapedFields, EscapedJson};
