//! Files that people write and files that Backstop writes: reads with a limit, atomic writes, and what is wrong with a file, explained where it is.

pub mod atomic_write;
pub mod mistake;
mod only_table;
pub mod regular_file;
pub mod values;
