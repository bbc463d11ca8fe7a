//! The `Retry-After` header of HTTP (RFC 9110, section 10.2.3).

use std::time::Duration;

use crate::clock;
use crate::failure::Milliseconds;

/// Parses the delay that a `Retry-After` asks for: whole seconds, or the time until an HTTP date, which is zero once the date has passed.
pub(crate) fn parse_retry_after(value: &str) -> Option<Milliseconds> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Milliseconds::from_duration(Duration::from_secs(seconds)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(clock::now().0);
    Some(Milliseconds::from_duration(date.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let in_a_minute =
            std::time::UNIX_EPOCH + Duration::from_millis(clock::now().0) + Duration::from_secs(60);
        let date = parse_retry_after(&httpdate::fmt_http_date(in_a_minute)).unwrap();
        assert!((58_000..=60_000).contains(&date.0), "{date}");
        for (value, expected) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("99999999999", Some(u32::MAX)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(
                parse_retry_after(value).map(|wait| wait.0),
                expected,
                "{value:?}"
            );
        }
    }
}
