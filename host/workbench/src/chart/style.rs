//! The font, the colours and the markers of the charts.

use plotters::style::{FontStyle, RGBColor};

use super::error::ChartError;

/// The font family in the SVG, and the font of the PNG.
pub(super) const FONT: &str = "sans-serif";

/// The space to the left of the texts, in points.
pub(super) const MARGIN: f64 = 32.0;

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

/// The background.
pub(super) const BACKGROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// The counterpart of each colour in dark mode, with the same contrast to the dark background as the colour has to white. Grey needs none.
const DARK: [(RGBColor, &str); 11] = [
    (BACKGROUND, "#0d1117"),
    (INK, "#e6edf3"),
    (QUIET, "#9198a1"),
    (GRID, "#30363d"),
    (BLUE, "#4aa8e8"),
    (ORANGE, "#f0b429"),
    (RGBColor(0x00, 0x00, 0x00), "#ffffff"),
    (RGBColor(0xd5, 0x5e, 0x00), "#ff8a4c"),
    (RGBColor(0x00, 0x9e, 0x73), "#3fcf9f"),
    (RGBColor(0xcc, 0x79, 0xa7), "#e6a3c7"),
    (RGBColor(0x56, 0xb4, 0xe9), "#9ad4ff"),
];

/// The CSS rules of an SVG for dark mode. They override the attributes of the shapes.
pub(super) fn dark_rules() -> String {
    let rules = DARK.iter().map(|(RGBColor(red, green, blue), dark)| {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!("[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}\n")
    });
    let rules: String = rules.collect();
    format!("<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>\n")
}

/// The corners of a marker of radius 1. Empty for a dot.
pub(super) type Marker = &'static [(f64, f64)];

/// Markers that can be distinguished without their colours.
const MARKERS: [Marker; 8] = [
    &[],
    &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    &[(0.0, -1.1), (1.1, 0.8), (-1.1, 0.8)],
    &[(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)],
    &[(0.0, 1.1), (1.1, -0.8), (-1.1, -0.8)],
    &[
        (-0.35, -1.2),
        (0.35, -1.2),
        (0.35, -0.35),
        (1.2, -0.35),
        (1.2, 0.35),
        (0.35, 0.35),
        (0.35, 1.2),
        (-0.35, 1.2),
        (-0.35, 0.35),
        (-1.2, 0.35),
        (-1.2, -0.35),
        (-0.35, -0.35),
    ],
    &[(-1.1, -1.1), (1.1, -1.1), (-1.1, 1.1), (1.1, 1.1)],
    &[(-1.3, -0.45), (1.3, -0.45), (1.3, 0.45), (-1.3, 0.45)],
];

/// The marker of a series. When colours repeat, the markers differ.
pub(super) fn marker(series: usize) -> Marker {
    let index = (series + series / PALETTE.len()) % MARKERS.len();
    MARKERS.get(index).copied().unwrap_or_default()
}

/// The colour of a series. Colours repeat after the eighth.
pub(super) fn colour(series: usize) -> RGBColor {
    PALETTE.get(series % PALETTE.len()).copied().unwrap_or(INK)
}

/// Registers the font with plotters. It can be called more than once.
pub(super) fn register_font() -> Result<(), ChartError> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    plotters::style::register_font(FONT, FontStyle::Normal, font).map_err(|_| ChartError::Font)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_but_grey_has_a_counterpart_in_dark_mode() {
        let rules = dark_rules();
        for RGBColor(red, green, blue) in PALETTE.into_iter().chain([BACKGROUND, INK, QUIET, GRID])
        {
            let light = format!("#{red:02X}{green:02X}{blue:02X}");
            assert!(light == "#8C8C8C" || rules.contains(&light), "{light}");
        }
    }

    #[test]
    fn no_two_series_of_one_colour_have_the_same_marker() {
        let look_of = |series| {
            let RGBColor(red, green, blue) = colour(series);
            let corners: Vec<_> = marker(series)
                .iter()
                .map(|(x, y)| (x.to_bits(), y.to_bits()))
                .collect();
            (red, green, blue, corners)
        };
        let all: std::collections::HashSet<_> = (0..64).map(look_of).collect();
        assert_eq!(all.len(), 64);
        let markers: std::collections::HashSet<_> =
            (0..8).map(|series| look_of(series).3).collect();
        assert_eq!(markers.len(), 8);
    }
}
