//! Tables for the terminal: numbers to the right, and no frame.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// A table with these heads. Its columns are aligned to the right, but for the last so many.
pub(super) fn with_heads(heads: &[String], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(heads);
    let right = heads.len().saturating_sub(left);
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { 2 }, 0));
        if number < right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
