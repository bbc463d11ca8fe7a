//! A plotters area with coordinates in points: shapes and texts.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::error::{ChartError, drawing};
use super::style::{BACKGROUND, FONT, GRID, Marker};

/// Drawing units per point. Plotters has integer coordinates.
pub(super) const SCALE: u32 = 4;

/// A position in points, from the top left.
pub(super) type Point = (f64, f64);

/// The horizontal alignment of a text at its position. Vertically it is centred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The text starts there.
    Start,
    /// The text ends there.
    End,
    /// The text is centred there.
    Middle,
}

/// A backend of plotters whose errors can be kept.
pub trait Backend: DrawingBackend<ErrorType: 'static> {}

impl<B: DrawingBackend<ErrorType: 'static>> Backend for B {}

/// Whether something could be drawn.
pub(super) type Drawn = Result<(), ChartError>;

/// The area to draw on.
pub struct Canvas<'a, B: Backend> {
    area: &'a DrawingArea<B, Shift>,
    lowered: f64,
}

impl<'a, B: Backend> Canvas<'a, B> {
    /// Draws on `area`. Texts are lowered by this fraction of their size, because backends differ in where they see the middle of a text.
    pub(super) fn on(area: &'a DrawingArea<B, Shift>, lowered: f64) -> Self {
        Self { area, lowered }
    }

    /// Fills the area with the background.
    pub(super) fn clear(&self) -> Drawn {
        self.area.fill(&BACKGROUND).map_err(drawing)
    }

    /// A thin line in the colour of the grid.
    pub(super) fn grid(&self, from: Point, to: Point) -> Drawn {
        self.line(&[from, to], GRID, 0.75)
    }

    pub(super) fn line(&self, points: &[Point], colour: RGBColor, width: f64) -> Drawn {
        let style = ShapeStyle {
            color: colour.to_rgba(),
            filled: false,
            stroke_width: u32::try_from(unit(width)).unwrap_or(1),
        };
        let points: Vec<_> = points.iter().copied().map(units).collect();
        self.area
            .draw(&PathElement::new(points, style))
            .map_err(drawing)
    }

    /// A filled polygon. `opacity` is from 0 to 1.
    pub(super) fn area(&self, points: &[Point], colour: RGBColor, opacity: f64) -> Drawn {
        let points: Vec<_> = points.iter().copied().map(units).collect();
        self.area
            .draw(&Polygon::new(points, colour.mix(opacity)))
            .map_err(drawing)
    }

    pub(super) fn rectangle(
        &self,
        from: Point,
        to: Point,
        colour: RGBColor,
        opacity: f64,
    ) -> Drawn {
        let style = colour.mix(opacity).filled();
        self.area
            .draw(&Rectangle::new([units(from), units(to)], style))
            .map_err(drawing)
    }

    pub(super) fn dot(&self, centre: Point, radius: f64, colour: RGBColor) -> Drawn {
        self.area
            .draw(&Circle::new(units(centre), unit(radius), colour.filled()))
            .map_err(drawing)
    }

    /// A marker of about this radius.
    pub(super) fn marker(
        &self,
        (x, y): Point,
        radius: f64,
        marker: Marker,
        colour: RGBColor,
    ) -> Drawn {
        if marker.is_empty() {
            return self.dot((x, y), radius, colour);
        }
        let corner = |(across, down): &Point| (x + radius * across, y + radius * down);
        let corners: Vec<_> = marker.iter().map(corner).collect();
        self.area(&corners, colour, 1.0)
    }

    pub(super) fn text(
        &self,
        text: &str,
        (x, y): Point,
        anchor: Anchor,
        size: f64,
        colour: RGBColor,
    ) -> Drawn {
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::End => HPos::Right,
            Anchor::Middle => HPos::Center,
        };
        // The font size of plotters is 1.24 times that of CSS.
        let font = (FONT, f64::from(SCALE) * size * 1.24).into_font();
        let style = TextStyle::from(font)
            .color(&colour)
            .pos(Pos::new(horizontal, VPos::Center));
        self.area
            .draw(&Text::new(text, units((x, y + self.lowered * size)), style))
            .map_err(drawing)
    }
}

fn units((x, y): Point) -> (i32, i32) {
    (unit(x), unit(y))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a position in a chart; a float saturates when it is cast"
)]
fn unit(length: f64) -> i32 {
    (length * f64::from(SCALE)).round() as i32
}
