//! Tables for the terminal, without borders.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// A table with these headers. All columns are aligned to the right, except the last `left`.
pub(crate) fn with_headers(headers: &[String], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(headers);
    let right = headers.len().saturating_sub(left);
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { 2 }, 0));
        if number < right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
