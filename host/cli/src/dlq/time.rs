//! Points in time on the command line.

use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_files::values::parse_span;

/// Parses a time of day in the format of RFC 3339, or how long ago it was.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(span) = parse_span(text) {
        let ago = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        return Ok(Timestamp(clock::now().0.saturating_sub(ago)));
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        format!("`{text}` is not a time: expected how long ago, such as 2h, or a time such as 2026-11-22T03:00:00Z")
    })?;
    Ok(Timestamp(
        u64::try_from(time.as_millisecond()).unwrap_or_default(),
    ))
}

/// How long ago a time was, in one unit: `3h`.
pub(super) fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(time).as_secs();
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7_200 => format!("{}m ago", seconds / 60),
        7_200..172_800 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// A duration in whole seconds, for people.
pub(super) fn whole_seconds(duration: std::time::Duration) -> String {
    Milliseconds::from_duration(std::time::Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_a_time_ago() {
        assert_eq!(
            parse_time("2026-11-22T03:00:00Z"),
            Ok(Timestamp(1_795_316_400_000))
        );
        let ago = clock::now().since(parse_time("2h").unwrap()).as_secs();
        assert!((7_200..7_205).contains(&ago), "{ago}");
        assert!(parse_time("yesterday").is_err());
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
