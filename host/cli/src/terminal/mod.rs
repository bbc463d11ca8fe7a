//! What writes to a terminal, or to the pipe or file in its place: lines and JSON ([`output`]), their styles, widths and tables, numbers for people, bars, progress and questions.

mod bar;
mod json;
mod numbers;
pub(crate) mod output;
mod progress;
pub(crate) mod prompt;
pub(crate) mod style;
mod table;
mod width;

pub(crate) use bar::bar;
pub(crate) use json::{joined, readable};
pub(crate) use numbers::{Size, count, counted, percent, rate};
pub(crate) use output::{eprint, eprintln, println};
pub(crate) use progress::Progress;
pub(crate) use table::{GAP, Table};
pub(crate) use width::{columns, cut, short, wrapped};
