//! Reading and writing files: reads with a size limit, atomic writes, and errors in TOML that point at the line.

pub mod atomic_write;
pub mod mistake;
mod only_table;
pub mod regular_file;
pub mod values;
