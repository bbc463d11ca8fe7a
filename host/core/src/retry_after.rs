//! How long a response asks to wait: `x-amz-retry-after`, and the `Retry-After` header of HTTP (RFC 9110, section 10.2.3).

use std::time::{Duration, UNIX_EPOCH};

use crate::clock;
use crate::failure::{Milliseconds, Timestamp};

/// How long a response asks to wait. `header` gives the value of a header by its name in lower case. The milliseconds of `x-amz-retry-after` take precedence.
///
/// ```
/// use backstop_core::failure::Milliseconds;
/// use backstop_core::retry_after::retry_after;
///
/// let wait = retry_after(|name| (name == "retry-after").then_some("120"));
/// assert_eq!(wait, Some(Milliseconds(120_000)));
/// ```
pub fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Milliseconds> {
    retry_after_at(header, clock::now())
}

/// As [`retry_after`], at this time of day.
pub fn retry_after_at<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> Option<Milliseconds> {
    let milliseconds = header("x-amz-retry-after").and_then(whole);
    milliseconds
        .map(|it| Milliseconds::from_duration(Duration::from_millis(it)))
        .or_else(|| parse_retry_after(header("retry-after")?, now))
}

/// Parses the value of a `Retry-After` header: whole seconds, or the time from `now` until an HTTP date, which is zero once the date has passed. What is too large to be counted is the longest time, not none.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Milliseconds> {
    if let Some(seconds) = whole(value) {
        return Some(Milliseconds::from_duration(Duration::from_secs(seconds)));
    }
    let value = value.trim();
    let Ok(date) = httpdate::parse_http_date(value) else {
        return far_date(value);
    };
    let date = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Duration::from_millis(now.0);
    Some(Milliseconds::from_duration(date.saturating_sub(now)))
}

/// A whole number, or the largest one in place of one that is larger.
fn whole(value: &str) -> Option<u64> {
    let value = value.trim();
    let is_whole = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| value.parse().unwrap_or(u64::MAX))
}

/// The time until a date whose year is outside of the range of HTTP dates, such as `Fri, 31 Dec 12026 23:59:59 GMT`.
fn far_date(value: &str) -> Option<Milliseconds> {
    let parts: Vec<_> = value.split_ascii_whitespace().collect();
    let [_, _, _, year, _, "GMT"] = parts.as_slice() else {
        return None;
    };
    match whole(year)? {
        ..1970 => Some(Milliseconds(0)),
        1970..=9999 => None,
        10_000.. => Some(Milliseconds(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // 2015-10-21T07:27:30.250Z
        let now = Timestamp(1_445_412_450_250);
        for (value, expected) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("99999999999", Some(u32::MAX)),
            ("18446744073709551616", Some(u32::MAX)),
            ("99999999999999999999999999", Some(u32::MAX)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(u32::MAX)),
            ("Fri, 31 Dec 12026 23:59:59 GMT", Some(u32::MAX)),
            (
                "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
                Some(u32::MAX),
            ),
            ("Wed, 31 Dec 1969 23:59:59 GMT", Some(0)),
            ("Fri, 32 Foo 2026 23:59:59 GMT", None),
            ("1.5", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(29_750)),
            ("Wednesday, 21-Oct-15 07:28:00 GMT", Some(29_750)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let wait = parse_retry_after(value, now).map(|wait| wait.0);
            assert_eq!(wait, expected, "{value:?}");
        }
    }

    #[test]
    fn amazons_milliseconds_take_precedence() {
        for (amazon, standard, expected) in [
            (Some("1500"), Some("2"), Some(1_500)),
            (Some("soon"), Some("2"), Some(2_000)),
            (Some("99999999999999999999"), Some("2"), Some(u32::MAX)),
            (Some("4294967296"), None, Some(u32::MAX)),
            (None, Some("2"), Some(2_000)),
            (None, None, None),
        ] {
            let header = |name: &str| match name {
                "x-amz-retry-after" => amazon,
                "retry-after" => standard,
                _ => None,
            };
            assert_eq!(retry_after(header), expected.map(Milliseconds));
        }
    }
}
