//! Rendering a chart as SVG and as PNG.

use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

use super::canvas::{Anchor, Backend, Canvas, Drawn, SCALE};
use super::error::{ChartError, drawing};
use super::style::{self, INK, MARGIN, QUIET};

/// Drawing units per pixel of the PNG: each pixel is the mean of this many by this many units.
const SMOOTHED: u32 = 2;

/// Something to draw.
pub trait Chart {
    /// Width and height in points.
    fn size(&self) -> (u32, u32);
    /// What it shows, in one line: the SVG's title.
    fn title(&self) -> String;
    /// The line below the title.
    fn subtitle(&self) -> String;

    /// A description for people who can't see it: the SVG's description.
    fn description(&self) -> String;
    /// Draws what is below the subtitle, in points.
    fn draw<B: Backend>(&self, canvas: &Canvas<'_, B>) -> Drawn;
}

/// The chart as an SVG document.
pub fn svg(chart: &impl Chart) -> Result<String, ChartError> {
    style::register_font()?;
    let (width, height) = chart.size();
    let mut drawn = String::new();
    let backend = SVGBackend::with_string(&mut drawn, (width * SCALE, height * SCALE));
    draw(chart, backend, 0.0)?;
    let body = drawn.split_once('\n').map_or("", |(_, body)| body);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title description\">\n<title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n{}{body}",
        width * SCALE,
        height * SCALE,
        escaped(&chart.title()),
        escaped(&chart.description()),
        style::dark_rules(),
    ))
}

/// The chart as a PNG, with two pixels to a point.
pub fn png(chart: &impl Chart) -> Result<Vec<u8>, ChartError> {
    style::register_font()?;
    let (width, height) = chart.size();
    let (wide, high) = (width * SCALE, height * SCALE);
    let mut drawn = vec![0xff; 3 * wide as usize * high as usize];
    let backend = BitMapBackend::with_buffer(&mut drawn, (wide, high));
    draw(chart, backend, 0.2)?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, wide / SMOOTHED, high / SMOOTHED);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&smoothed(&drawn, wide as usize))?;
    writer.finish()?;
    Ok(file)
}

fn draw(chart: &impl Chart, backend: impl Backend, lowered: f64) -> Drawn {
    let area = backend.into_drawing_area();
    let canvas = Canvas::on(&area, lowered);
    canvas.clear()?;
    canvas.text(&chart.title(), (MARGIN, 38.0), Anchor::Start, 18.0, INK)?;
    canvas.text(
        &chart.subtitle(),
        (MARGIN, 64.0),
        Anchor::Start,
        12.5,
        QUIET,
    )?;
    chart.draw(&canvas)?;
    area.present().map_err(drawing)
}

/// A picture of half the width and height, each pixel the mean of four.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the mean of bytes is a byte"
)]
fn smoothed(picture: &[u8], width: usize) -> Vec<u8> {
    let side = SMOOTHED as usize;
    let mut smooth = Vec::with_capacity(picture.len() / (side * side));
    for rows in picture.chunks_exact(3 * width * side) {
        for left in (0..width).step_by(side) {
            for channel in 0..3 {
                let at = |row: usize, column: usize| {
                    let index = 3 * (row * width + left + column) + channel;
                    u32::from(rows.get(index).copied().unwrap_or(0xff))
                };
                let sum: u32 = (0..side)
                    .flat_map(|row| (0..side).map(move |column| (row, column)))
                    .map(|(row, column)| at(row, column))
                    .sum();
                smooth.push((sum / (SMOOTHED * SMOOTHED)) as u8);
            }
        }
    }
    smooth
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smooth_pixel_is_the_mean_of_four() {
        let black = [0, 0, 0];
        let white = [200, 100, 40];
        let picture = [black, white, white, white, black, white, black, black].concat();
        assert_eq!(smoothed(&picture, 4), [100, 50, 20, 100, 50, 20]);
    }
}
