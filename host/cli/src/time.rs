//! Times and durations on the command line.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_files::values::parse_span;
use backstop_workbench::simulate::Rounded;

/// Parses a time of day in the format of RFC 3339, or how long ago it was.
pub(crate) fn parse_past(text: &str) -> Result<Timestamp, String> {
    let ago = |span: Duration| {
        let milliseconds = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Timestamp(clock::now().0.saturating_sub(milliseconds))
    };
    parse_time(text, ago, "how long ago, such as 2h,")
}

/// Parses a time of day in the format of RFC 3339, or how far in the future it is.
pub(crate) fn parse_future(text: &str) -> Result<Timestamp, String> {
    parse_time(
        text,
        |span| clock::now().plus(span),
        "a duration such as 30m,",
    )
}

fn parse_time(
    text: &str,
    relative: impl FnOnce(Duration) -> Timestamp,
    expected: &str,
) -> Result<Timestamp, String> {
    if let Ok(span) = parse_span(text) {
        return Ok(relative(span));
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        format!(
            "`{text}` is not a time: expected {expected} or a time such as 2026-11-22T03:00:00Z"
        )
    })?;
    Ok(Timestamp(
        u64::try_from(time.as_millisecond()).unwrap_or_default(),
    ))
}

/// Parses a duration that may be zero.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" | "0s" => Ok(Duration::ZERO),
        text => parse_span(text).map_err(|error| error.to_string()),
    }
}

/// A time to the millisecond, in the format of RFC 3339.
pub(crate) fn exact(time: Timestamp) -> String {
    let milliseconds = i64::try_from(time.0).unwrap_or(i64::MAX);
    let exact = jiff::Timestamp::from_millisecond(milliseconds);
    exact.unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// How long ago a time was, in one unit: `3h ago`.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(time).as_secs();
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7_200 => format!("{}m ago", seconds / 60),
        7_200..172_800 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// A time, and how far in the future it is: `2026-11-22T03:05:00Z, in 5m`.
pub(crate) fn at(time: Timestamp, now: Timestamp) -> String {
    format!("{}, in {}", time.rfc3339(), rounded(time.since(now)))
}

/// A duration for people.
pub(crate) fn rounded(duration: Duration) -> Rounded {
    Rounded(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A duration in whole seconds, for people.
pub(crate) fn whole_seconds(duration: Duration) -> String {
    Milliseconds::from_duration(Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_relative_to_now() {
        let absolute = Ok(Timestamp(1_795_316_400_000));
        assert_eq!(parse_past("2026-11-22T03:00:00Z"), absolute);
        assert_eq!(parse_future("2026-11-22T03:00:00Z"), absolute);
        let past = parse_past("2h").unwrap();
        let ago = clock::now().since(past).as_secs();
        assert!((7_200..7_205).contains(&ago), "{ago}");
        let later = parse_future("2h").unwrap().since(clock::now()).as_secs();
        assert!((7_195..=7_200).contains(&later), "{later}");
        assert!(parse_past("yesterday").is_err() && parse_future("tomorrow").is_err());
    }

    #[test]
    fn how_long_ago_has_one_unit() {
        for (seconds, expected) in [
            (0, "0s ago"),
            (121, "2m ago"),
            (7_200, "2h ago"),
            (200_000, "2d ago"),
        ] {
            assert_eq!(ago(Timestamp(0), Timestamp(seconds * 1_000)), expected);
        }
    }
}
