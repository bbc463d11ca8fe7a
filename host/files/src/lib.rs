//! Reading and writing files: reads with a size limit, atomic writes, objects with a checksum, and errors in TOML that point at the line.

pub mod atomic_write;
mod file_work;
pub mod mistake;
mod mistake_words;
pub mod nearest;
mod only_table;
pub mod regular_file;
pub mod sealed;
mod text_or_table;
pub mod values;

pub use file_work::FileWork;
pub use text_or_table::text_or_table;
