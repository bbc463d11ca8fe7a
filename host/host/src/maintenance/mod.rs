//! Maintenance windows: times at which a queue is not polled, because its configuration says so.
//!
//! Everything here is computed from the time of day, which is passed in: a host that starts in a window, whose clock is set, or that did not run for a while is paused as if nothing had happened.

mod pattern;

use std::time::Duration;

use crate::failure::Timestamp;
use pattern::Pattern;

/// The shortest window: a pattern has minutes.
const SHORTEST: Duration = Duration::from_secs(60);

/// The longest window: a message is kept for 14 days at most.
const LONGEST: Duration = Duration::from_secs(14 * 86_400);

/// How many windows are compared, to find two that meet.
const COMPARED: usize = 400;

/// The longest time for which windows are compared: each change of the clocks comes twice in it.
const COMPARED_FOR: Duration = Duration::from_secs(750 * 86_400);

/// From when on windows are compared. It is no time of day, so that a configuration is as valid tomorrow as it is today.
const COMPARED_FROM: Timestamp = Timestamp(1_767_225_600_000);

/// How often the time of day is read at least: a clock may be set.
const CHECK: Duration = Duration::from_secs(10);

/// The longest time that is searched for windows that were missed.
const MISSED_FOR: Duration = LONGEST;

/// A maintenance window that comes again and again.
#[derive(Debug, Clone)]
pub struct Window {
    at: String,
    zone: String,
    over: Duration,
    why: Option<String>,
    pattern: Pattern,
}

/// By what the configuration says.
impl PartialEq for Window {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            at,
            zone,
            over,
            why,
            pattern: _,
        } = self;
        (at, zone, over, why) == (&other.at, &other.zone, &other.over, &other.why)
    }
}

impl Eq for Window {}

/// Why there is no such window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWindow {
    /// The pattern does not have five fields.
    #[error(
        "`at` has {0} fields: expected five, minute, hour, day of the month, month and day of the week, such as 0 2 * * SUN for Sundays at 2:00"
    )]
    Fields(usize),
    /// A field of the pattern is invalid.
    #[error(
        "`at`: `{text}` is no {name}{reason}: expected a number, a name such as SUN or JAN, *, a list with commas, a range such as 1-5, or steps such as */2"
    )]
    Field {
        /// The field.
        name: &'static str,
        /// What it is.
        text: String,
        /// What is wrong with it, after a colon, if it is known.
        reason: String,
    },
    /// Nobody knows the time zone.
    #[error(
        "`zone`: `{0}` is no time zone: expected a name of the IANA database, such as Europe/Berlin or UTC"
    )]
    Zone(String),
    /// It is too short or too long.
    #[error("`for`: expected 1m to 14d")]
    Length,
    /// No day is like that.
    #[error("`at`: no such day ever comes: expected a date that exists, such as 0 2 1 * *")]
    Never,
    /// The next one begins before this one has ended.
    #[error(
        "`for`: the window that begins at {first} has not ended when the next one begins, at {next}: expected a shorter time than between two windows"
    )]
    Meet {
        /// When it begins.
        first: String,
        /// When the next one does.
        next: String,
    },
}

/// One time that a window is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    /// When it began.
    pub(crate) since: Timestamp,
    /// When it ends.
    pub(crate) until: Timestamp,
    /// The reason that the configuration gives.
    pub(crate) why: Option<String>,
}

impl Window {
    /// A window that begins at the times of a pattern of cron, in a time zone.
    pub fn new(
        at: &str,
        zone: &str,
        over: Duration,
        why: Option<String>,
    ) -> Result<Self, InvalidWindow> {
        let window = Self {
            at: at.to_owned(),
            zone: zone.to_owned(),
            over,
            why,
            pattern: Pattern::parse(at, zone)?,
        };
        if !(SHORTEST..=LONGEST).contains(&over) {
            return Err(InvalidWindow::Length);
        }
        window.check_gaps()?;
        Ok(window)
    }

    /// Each window has to end before the next one begins.
    fn check_gaps(&self) -> Result<(), InvalidWindow> {
        let mut first = None;
        let until = COMPARED_FROM.plus(COMPARED_FOR);
        let begins = self.pattern.after(moment(COMPARED_FROM)).map(timestamp);
        for next in begins.take(COMPARED) {
            if let Some(first) = first.replace(next)
                && next > first
                && next.since(first) <= self.over
            {
                return Err(InvalidWindow::Meet {
                    first: first.rfc3339(),
                    next: next.rfc3339(),
                });
            }
            if next > until {
                break;
            }
        }
        first.map_or(Err(InvalidWindow::Never), |_| Ok(()))
    }

    /// The window that is open now, if one is.
    fn open(&self, now: Timestamp) -> Option<Open> {
        let earliest = before(now, self.over);
        let since = self.begins(earliest, now).pop()?;
        Some(Open {
            since,
            until: since.plus(self.over),
            why: self.why.clone(),
        })
    }

    /// When windows begin, after the first and not after the second time.
    fn begins(&self, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
        let begins = self.pattern.between(moment(first), moment(last));
        begins.into_iter().map(timestamp).collect()
    }
}

/// What is to be done at a time of day.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The window that is open. If several are, it is the one that ends last.
    pub(crate) open: Option<Open>,
    /// When a window ended that nobody noticed.
    pub(crate) missed: Option<Timestamp>,
    /// When to look again.
    pub(crate) again: Duration,
}

/// The windows of a queue, and which of them an operator has ended.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    windows: Vec<Window>,
    /// Windows that were ended before their time, by when they began.
    ended: Vec<(Window, Open)>,
    /// The time of day when it was last read.
    looked: Option<Timestamp>,
}

impl Windows {
    pub(crate) fn new(windows: Vec<Window>) -> Self {
        Self {
            windows,
            ..Self::default()
        }
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Other windows take their place. One that an operator has ended, and that is the same, stays ended.
    pub(crate) fn replace(&mut self, windows: Vec<Window>) {
        if self.windows.is_empty() {
            // Nobody looked while there were none.
            self.looked = None;
        }
        self.windows = windows;
        self.ended.retain(|(it, _)| self.windows.contains(it));
    }

    /// What the windows say about this time of day.
    pub(crate) fn look(&mut self, now: Timestamp) -> Look {
        let looked = self.looked.replace(now);
        self.ended.retain(|(_, open)| open.until > now);
        Look {
            open: self
                .open(now)
                .map(|(_, open)| open)
                .max_by_key(|it| it.until),
            missed: looked.and_then(|before| self.missed(before, now)),
            again: self.again(now),
        }
    }

    /// Ends the windows that are open, until each begins again.
    pub(crate) fn end(&mut self, now: Timestamp) {
        let open: Vec<_> = self
            .open(now)
            .map(|(it, open)| (it.clone(), open))
            .collect();
        self.ended.extend(open);
    }

    fn open(&self, now: Timestamp) -> impl Iterator<Item = (&Window, Open)> {
        let open = self.windows.iter();
        let open = open.filter_map(move |it| Some((it, it.open(now)?)));
        open.filter(|(window, open)| {
            let mut ended = self.ended.iter();
            !ended.any(|(it, was)| it == *window && was.since == open.since)
        })
    }

    /// When a window ended that began and ended between two looks, which are never that far apart unless the clock was set or the host did not run.
    fn missed(&self, looked: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let looked = looked.max(before(now, MISSED_FOR));
        if now.since(looked) < SHORTEST {
            return None;
        }
        let missed = self.windows.iter().flat_map(|it| {
            let begins = it.begins(looked, now).into_iter();
            begins.map(|since| since.plus(it.over))
        });
        missed.filter(|until| *until <= now).max()
    }

    /// The next time that a window begins or ends, if it is soon.
    fn again(&self, now: Timestamp) -> Duration {
        let ends = self.open(now).map(|(_, open)| open.until);
        let soon = now.plus(CHECK);
        let begins = self.windows.iter().flat_map(|it| it.begins(now, soon));
        let changes = ends.chain(begins).map(|change| change.since(now));
        changes.fold(CHECK, Duration::min)
    }
}

fn before(now: Timestamp, time: Duration) -> Timestamp {
    let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_sub(time))
}

fn moment(timestamp: Timestamp) -> jiff::Timestamp {
    let milliseconds = i64::try_from(timestamp.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(milliseconds).unwrap_or(jiff::Timestamp::MAX)
}

fn timestamp(moment: jiff::Timestamp) -> Timestamp {
    Timestamp(u64::try_from(moment.as_millisecond()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
