//! A plotters area in points: shapes and texts, each placed where it is said.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::error::{ChartError, drawing};
use super::style::{FONT, GRID, GROUND, Mark};

/// Drawing units per point: plotters places everything on whole units.
pub(super) const SCALE: u32 = 4;

/// A place in points, from the top left.
pub(super) type Point = (f64, f64);

/// How a text stands to its place; up and down it is always in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// It begins there.
    After,
    /// It ends there.
    Before,
    /// It has its middle there.
    Around,
}

/// Where to draw.
pub struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    lowered: f64,
}

impl<'a, B: DrawingBackend> Canvas<'a, B>
where
    B::ErrorType: 'static,
{
    /// Draws on `area`. Texts are lowered by so much of their size: what one backend takes for the middle of a text another does not.
    pub(super) fn on(area: &'a DrawingArea<B, Shift>, lowered: f64) -> Self {
        Self { area, lowered }
    }

    /// Leaves nothing of what was there.
    pub(super) fn clear(&self) -> Result<(), ChartError> {
        self.area.fill(&GROUND).map_err(drawing)
    }

    /// A thin line in the colour of the grid.
    pub(super) fn grid(&self, from: Point, to: Point) -> Result<(), ChartError> {
        self.line(&[from, to], GRID, 0.75)
    }

    pub(super) fn line(
        &self,
        places: &[Point],
        colour: RGBColor,
        width: f64,
    ) -> Result<(), ChartError> {
        let style = ShapeStyle {
            color: colour.to_rgba(),
            filled: false,
            stroke_width: u32::try_from(unit(width)).unwrap_or(1),
        };
        let places: Vec<_> = places.iter().copied().map(units).collect();
        self.area
            .draw(&PathElement::new(places, style))
            .map_err(drawing)
    }

    /// `opacity` is from 0 to 1.
    pub(super) fn area(
        &self,
        places: &[Point],
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), ChartError> {
        let places: Vec<_> = places.iter().copied().map(units).collect();
        self.area
            .draw(&Polygon::new(places, colour.mix(opacity)))
            .map_err(drawing)
    }

    pub(super) fn rectangle(
        &self,
        from: Point,
        to: Point,
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), ChartError> {
        let style = colour.mix(opacity).filled();
        self.area
            .draw(&Rectangle::new([units(from), units(to)], style))
            .map_err(drawing)
    }

    pub(super) fn dot(
        &self,
        place: Point,
        radius: f64,
        colour: RGBColor,
    ) -> Result<(), ChartError> {
        self.area
            .draw(&Circle::new(units(place), unit(radius), colour.filled()))
            .map_err(drawing)
    }

    /// A mark of about this radius.
    pub(super) fn mark(
        &self,
        (x, y): Point,
        radius: f64,
        mark: Mark,
        colour: RGBColor,
    ) -> Result<(), ChartError> {
        if mark.is_empty() {
            return self.dot((x, y), radius, colour);
        }
        let corner = |(across, down): &Point| (x + radius * across, y + radius * down);
        let corners: Vec<_> = mark.iter().map(corner).collect();
        self.area(&corners, colour, 1.0)
    }

    pub(super) fn text(
        &self,
        text: &str,
        (x, y): Point,
        stands: Stands,
        size: f64,
        colour: RGBColor,
    ) -> Result<(), ChartError> {
        let across = match stands {
            Stands::After => HPos::Left,
            Stands::Before => HPos::Right,
            Stands::Around => HPos::Center,
        };
        // What plotters calls the size of a font is 1.24 of what CSS does.
        let font = (FONT, f64::from(SCALE) * size * 1.24).into_font();
        let style = TextStyle::from(font)
            .color(&colour)
            .pos(Pos::new(across, VPos::Center));
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
    reason = "a place in a picture; a float saturates when it is cast"
)]
fn unit(points: f64) -> i32 {
    (points * f64::from(SCALE)).round() as i32
}
