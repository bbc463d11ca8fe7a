//! Charts as SVG and PNG, from the same drawing. Text in the SVG is text; the PNG has two pixels per point.
//!
//! Plotters draws with a bundled font; the fonts of the system are not used. The colours are those of Okabe and Ito, which people with colour blindness can distinguish, and lines also differ by their markers. An SVG follows the reader's dark mode and has its own background; a PNG is light.

mod axis;
mod canvas;
mod contention;
mod delays;
mod error;
mod histogram;
mod render;
mod style;
mod timetable;

pub use contention::ContentionChart;
pub use delays::DelaysChart;
pub use error::ChartError;
pub use render::{Chart, png, svg};
pub use timetable::TimetableChart;
