//! When a pattern of cron falls due in a time zone.
//!
//! The pattern is matched against the clock on the wall; the zone says which moment that is. When clocks go forward, a time that the night leaves out is the moment of the change; when they go back, a time that comes twice is the first of both. A pattern for every hour follows the hours that pass: it leaves out what is left out, and has twice what comes twice.

use std::iter::successors;

use cronexpr::{Crontab, MakeTimestamp, parse_crontab};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::InvalidWindow;

/// The fields of a pattern.
const FIELDS: [&str; 5] = [
    "minute",
    "hour",
    "day of the month",
    "month",
    "day of the week",
];

/// More than clocks ever change at once: Samoa left out a day.
const LARGEST_CHANGE: SignedDuration = SignedDuration::from_hours(25);

/// The last second before which the library can count.
const LAST_SECOND: i64 = 221_845_392_000;

/// The most bytes of a pattern.
const PATTERN_BYTES: usize = 200;

/// Times of a day, on days of a calendar, in a zone.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    crontab: Crontab,
    zone: TimeZone,
    is_of_every_hour: bool,
}

impl Pattern {
    pub(super) fn parse(at: &str, zone: &str) -> Result<Self, InvalidWindow> {
        let fields: Vec<_> = at.split_ascii_whitespace().collect();
        let [_, hour, ..] = fields.as_slice() else {
            return Err(InvalidWindow::Fields(fields.len()));
        };
        if fields.len() != FIELDS.len() || at.len() > PATTERN_BYTES {
            return Err(InvalidWindow::Fields(fields.len()));
        }
        for (index, (name, text)) in FIELDS.into_iter().zip(&fields).enumerate() {
            check_field(index, name, text)?;
        }
        let is_of_every_hour = hour.starts_with('*');
        // The clock on the wall, as if it were that of UTC.
        let crontab = parse_crontab(&format!("{} UTC", fields.join(" ")));
        let crontab = crontab.map_err(|_| InvalidWindow::Fields(fields.len()))?;
        let zone = TimeZone::get(zone).map_err(|_| InvalidWindow::Zone(zone.to_owned()))?;
        Ok(Self {
            crontab,
            zone,
            is_of_every_hour,
        })
    }

    /// The moments after one of them, in their order but for the hours of a change of the clocks.
    pub(super) fn after(&self, moment: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.on_the_wall(moment)
            .flat_map(|wall| self.moments(wall))
            .filter(move |it| *it > moment)
    }

    /// The moments after the first and not after the second one, in their order.
    pub(super) fn between(&self, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
        let Ok(end) = self.zone.to_datetime(last).to_zoned(TimeZone::UTC) else {
            return Vec::new();
        };
        let end = end.timestamp().saturating_add(LARGEST_CHANGE);
        let Ok(end) = end else { return Vec::new() };
        let walls = self.on_the_wall(first).take_while(|wall| *wall <= end);
        let moments = walls.flat_map(|wall| self.moments(wall));
        let mut between: Vec<_> = moments.filter(|it| *it > first && *it <= last).collect();
        between.sort_unstable();
        between.dedup();
        between
    }

    /// What clocks on the wall show, as if they were those of UTC, from well before a moment.
    fn on_the_wall(&self, moment: Timestamp) -> impl Iterator<Item = Timestamp> {
        let wall = self.zone.to_datetime(moment).to_zoned(TimeZone::UTC).ok();
        let from = wall.and_then(|wall| wall.timestamp().checked_sub(LARGEST_CHANGE).ok());
        successors(from.and_then(|from| self.next(from)), |wall| {
            self.next(*wall)
        })
    }

    fn next(&self, wall: Timestamp) -> Option<Timestamp> {
        if wall.as_second() > LAST_SECOND {
            return None;
        }
        let next = self.crontab.find_next(MakeTimestamp(wall)).ok()?;
        Some(next.timestamp())
    }

    /// The moments at which clocks show this time.
    fn moments(&self, wall: Timestamp) -> impl Iterator<Item = Timestamp> {
        let time = TimeZone::UTC.to_datetime(wall);
        let found = self.zone.to_ambiguous_timestamp(time);
        let (offset, is_of_every_hour) = (found.offset(), self.is_of_every_hour);
        let (earlier, later) = (found.earlier().ok(), found.later().ok());
        let moments = match offset {
            AmbiguousOffset::Unambiguous { .. } => [earlier, None],
            AmbiguousOffset::Gap { .. } if is_of_every_hour => [None, None],
            AmbiguousOffset::Gap { .. } => [earlier.and_then(|it| self.change_after(it)), None],
            AmbiguousOffset::Fold { .. } if is_of_every_hour => [earlier, later],
            AmbiguousOffset::Fold { .. } => [earlier, None],
        };
        moments.into_iter().flatten()
    }

    /// The next change of the clocks.
    fn change_after(&self, moment: Timestamp) -> Option<Timestamp> {
        Some(self.zone.following(moment).next()?.timestamp())
    }
}

/// Checks one field of a pattern, alone, so that an error names it.
fn check_field(index: usize, name: &'static str, text: &str) -> Result<(), InvalidWindow> {
    let mut fields = ["*"; FIELDS.len()];
    if let Some(field) = fields.get_mut(index) {
        *field = text;
    }
    let Err(error) = parse_crontab(&format!("{} UTC", fields.join(" "))) else {
        return Ok(());
    };
    // The library marks the place below the pattern.
    let error = error.to_string();
    let reason = error.rsplit_once("^ ").map_or("", |(_, reason)| reason);
    let reason = match reason.trim() {
        "" | "malformed expression" => String::new(),
        reason => format!(": {reason}"),
    };
    Err(InvalidWindow::Field {
        name,
        text: text.to_owned(),
        reason,
    })
}
