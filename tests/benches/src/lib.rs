//! What the benchmarks share: figures with their spread, tables that are printed and written for the report, and sides that take turns.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark that can't go on fails"
)]

mod figures;
mod requests;
mod table;
pub mod timing;

pub use figures::{Better, Figure, Unit};
pub use requests::requests_of_a_failure;
pub use table::{Chapter, Column, Row, Table, folder, read};
