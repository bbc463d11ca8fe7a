//! The font and the colours of the charts.

use plotters::style::{FontStyle, RGBColor};

use super::ChartError;

/// What the SVG names, and what the PNG draws with.
pub(super) const FONT: &str = "sans-serif";

pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const QUIET: RGBColor = RGBColor(0x59, 0x63, 0x6e);
pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xe2, 0xe7);
pub(super) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(super) const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);

/// Okabe and Ito's colours that stand out on white; the first two are for the baselines.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x8c, 0x8c, 0x8c),
    BLUE,
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    ORANGE,
    RGBColor(0x56, 0xb4, 0xe9),
];

/// The colour of a series; those after the eighth begin again.
pub(super) fn colour(series: usize) -> RGBColor {
    PALETTE.get(series % PALETTE.len()).copied().unwrap_or(INK)
}

/// Gives plotters the font to measure and draw text with. More than once changes nothing.
pub(super) fn register_font() -> Result<(), ChartError> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    plotters::style::register_font(FONT, FontStyle::Normal, font).map_err(|_| ChartError::Font)
}
