//! Log lines that never hold up a message and that nobody can forge: see [`BackgroundWriter`] and [`EscapedFields`].

mod background_writer;
mod escaped_fields;

pub use background_writer::BackgroundWriter;
pub use escaped_fields::EscapedFields;
