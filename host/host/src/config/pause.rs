//! The maintenance windows of a queue.

use super::keys::{Spot, Typed};
use super::{ConfigError, raw, value};
use crate::maintenance::Window;
use crate::text::{cut, one_line};

/// The most windows of a queue.
const MOST: usize = 100;

/// The most bytes of a reason.
const WHY_BYTES: usize = 500;

impl Typed<raw::Windows> for Vec<Window> {
    fn of(windows: &raw::Windows, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        if windows.len() > MOST {
            let expected = format!("expected at most {MOST} windows");
            return Err(value(spot.place(), expected));
        }
        let convert = |(index, window): (usize, &raw::Window)| {
            let why = window.why.as_deref().map(one_line);
            let why = why.map(|mut why| {
                cut(&mut why, WHY_BYTES);
                why
            });
            let checked = Window::new(&window.at, &window.zone, window.over.0, why);
            checked.map_err(|error| match windows.len() {
                1 => value(spot.place(), error.to_string()),
                _ => value(spot.place(), format!("window {}: {error}", index + 1)),
            })
        };
        windows.iter().enumerate().map(convert).collect()
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}
