//! Logging that never delays a message ([`BackgroundWriter`]) lines that nobody can forge ([`EscapedFields`], [`EscapedJson`]), and that begin with what happened ([`EventFirst`]).

mod background_writer;
mod escaped_fields;
mod event_first;

pub use background_writer::BackgroundWriter;
pub use escaped_fields::{EscapedFields, EscapedJson};
pub use event_first::EventFirst;
