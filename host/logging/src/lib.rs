//! Logging that never delays a message ([`BackgroundWriter`]) lines that nobody can forge ([`EscapedFields`], [`EscapedJson`]), that begin with what happened ([`EventFirst`]), and that are not more than people can read ([`Storm`]).

mod background_writer;
mod escaped_fields;
mod event_first;
mod line;
mod storm;

pub use background_writer::BackgroundWriter;
pub use escaped_fields::{EscapedFields, EscapedJson};
pub use event_first::EventFirst;
pub use storm::Storm;
