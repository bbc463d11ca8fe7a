use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

fn at(time: &str) -> Timestamp {
    timestamp(time.parse().unwrap())
}

fn window(at: &str, over: Duration) -> Window {
    Window::new(at, "Europe/Berlin", over, None).unwrap()
}

/// When windows begin, from one day to another.
fn begins(pattern: &str, first: &str, last: &str) -> Vec<String> {
    let window = window(pattern, MINUTE);
    let begins = window.begins(at(first), at(last)).into_iter();
    begins.map(Timestamp::rfc3339).collect()
}

#[test]
fn a_pattern_follows_the_clock_on_the_wall_through_both_changes() {
    for (pattern, first, last, expected) in [
        // 2:00 does not exist on 29 March: the window begins when it would be 2:00.
        (
            "0 2 * * SUN",
            "2026-03-22T00:00:00Z",
            "2026-04-05T12:00:00Z",
            &[
                "2026-03-22T01:00:00Z",
                "2026-03-29T01:00:00Z",
                "2026-04-05T00:00:00Z",
            ][..],
        ),
        (
            "30 2 * * *",
            "2026-03-28T12:00:00Z",
            "2026-03-30T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "0 0,2 * * *",
            "2026-03-28T12:00:00Z",
            "2026-03-29T12:00:00Z",
            &["2026-03-28T23:00:00Z", "2026-03-29T01:00:00Z"],
        ),
        // 2:00 comes twice on 25 October: once is enough.
        (
            "0 2 * * SUN",
            "2026-10-24T12:00:00Z",
            "2026-11-01T12:00:00Z",
            &["2026-10-25T00:00:00Z", "2026-11-01T01:00:00Z"],
        ),
        // Every hour is every hour that passes.
        (
            "30 * * * *",
            "2026-10-24T23:00:00Z",
            "2026-10-25T03:00:00Z",
            &[
                "2026-10-24T23:30:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:30:00Z",
            ],
        ),
        (
            "30 * * * *",
            "2026-03-29T00:00:00Z",
            "2026-03-29T02:00:00Z",
            &["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"],
        ),
        (
            "0 12 29 2 *",
            "2026-01-01T00:00:00Z",
            "2029-01-01T00:00:00Z",
            &["2028-02-29T11:00:00Z"],
        ),
    ] {
        assert_eq!(
            begins(pattern, first, last),
            expected,
            "{pattern} after {first}"
        );
    }
}

/// Whatever the time, and wherever clocks change by an hour, by half of one, or at midnight.
#[test]
fn each_day_has_one_window() {
    for (zone, change) in [
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("Australia/Lord_Howe", "2026-04-05"),
        ("Australia/Lord_Howe", "2026-10-04"),
        ("America/Havana", "2026-03-08"),
        ("America/Havana", "2026-11-01"),
    ] {
        let zone = jiff::tz::TimeZone::get(zone).unwrap();
        let name = zone.iana_name().unwrap();
        let day: jiff::civil::Date = change.parse().unwrap();
        let midnight = |days: i64| {
            let date = day + jiff::SignedDuration::from_hours(24 * days);
            timestamp(date.to_zoned(zone.clone()).unwrap().timestamp())
        };
        for minutes in (0..1_440).step_by(15) {
            let pattern = format!("{} {} * * *", minutes % 60, minutes / 60);
            let parsed = Pattern::parse(&pattern, name).unwrap();
            for days in -1..=1 {
                let from = Timestamp(midnight(days).0 - 1);
                let until = Timestamp(midnight(days + 1).0 - 1);
                let begins = parsed.between(moment(from), moment(until));
                assert_eq!(begins.len(), 1, "{pattern} {name} {change} {days}");
            }
        }
    }
}

#[test]
fn the_time_zones_are_those_of_the_program() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    assert!(bundled.get("Europe/Berlin").is_ok());
    assert!(bundled.get("America/New_York").is_ok());
}

#[test]
fn a_window_is_open_from_its_beginning_for_its_time_whatever_clocks_show() {
    let window = window("0 2 * * SUN", 2 * HOUR);
    for (time, until) in [
        ("2026-11-22T00:59:59Z", None),
        ("2026-11-22T01:00:00Z", Some("2026-11-22T03:00:00Z")),
        ("2026-11-22T02:59:59Z", Some("2026-11-22T03:00:00Z")),
        ("2026-11-22T03:00:00Z", None),
        ("2026-03-29T01:00:00Z", Some("2026-03-29T03:00:00Z")),
        ("2026-10-25T01:59:59Z", Some("2026-10-25T02:00:00Z")),
        ("2026-10-25T02:00:00Z", None),
        // Clocks of machines may show anything.
        ("1970-01-01T00:00:00Z", None),
        ("9999-12-30T00:00:00Z", None),
    ] {
        let open = window.open(at(time)).map(|open| open.until.rfc3339());
        assert_eq!(open.as_deref(), until, "{time}");
    }
    assert_eq!(window.open(Timestamp(u64::MAX)), None);
}

#[test]
fn what_is_no_window_is_rejected_with_what_would_be_one() {
    for (at, zone, over, expected) in [
        ("", "UTC", HOUR, "`at` has 0 fields: expected five"),
        ("0 2 * *", "UTC", HOUR, "`at` has 4 fields: expected five"),
        (
            "0 0 2 * * SUN",
            "UTC",
            HOUR,
            "`at` has 6 fields: expected five",
        ),
        (
            "0 25 * * *",
            "UTC",
            HOUR,
            "`25` is no hour: value must be in range 0..=23",
        ),
        (
            "0 2 * * SUNN",
            "UTC",
            HOUR,
            "`SUNN` is no day of the week: expected",
        ),
        (
            "0 2 * * FRI-MON",
            "UTC",
            HOUR,
            "`FRI-MON` is no day of the week: range must",
        ),
        (
            "*/0 2 * * *",
            "UTC",
            HOUR,
            "`*/0` is no minute: step must be",
        ),
        ("0 2 é * *", "UTC", HOUR, "`é` is no day of the month"),
        ("0 2 30 2 *", "UTC", HOUR, "`at`: no such day ever comes"),
        (
            "0 2 * * *",
            "Europe/Berlni",
            HOUR,
            "`Europe/Berlni` is no time zone",
        ),
        ("0 2 * * *", "", HOUR, "`` is no time zone"),
        ("0 2 * * *", "../../etc/passwd", HOUR, "is no time zone"),
        (
            "0 2 * * *",
            "UTC",
            Duration::from_secs(59),
            "`for`: expected 1m to 14d",
        ),
        ("0 2 1 1 *", "UTC", 337 * HOUR, "`for`: expected 1m to 14d"),
        (
            "0 2 * * *",
            "UTC",
            24 * HOUR,
            "`for`: the window that begins at 2026-01-01T02:00:00Z has not ended when the next one begins, at 2026-01-02T02:00:00Z",
        ),
        (
            "* * * * *",
            "UTC",
            MINUTE,
            "has not ended when the next one begins",
        ),
        // On one day of the year, they meet.
        (
            "0 2 * * *",
            "Europe/Berlin",
            23 * HOUR,
            "at 2026-03-29T01:00:00Z has not ended when the next one begins, at 2026-03-30T00:00:00Z",
        ),
    ] {
        let error = Window::new(at, zone, over, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{at} {zone}: {error}");
    }
    let long = format!("{} 2 * * *", "1,".repeat(200));
    assert!(Window::new(&long, "UTC", HOUR, None).is_err());
    assert!(Window::new("0 2 * * *", "UTC", 23 * HOUR, None).is_ok());
    assert!(Window::new("*/10 * * * *", "Europe/Berlin", 5 * MINUTE, None).is_ok());
}

/// Windows that were looked at for the first time now.
fn windows(windows: &[Window]) -> Windows {
    Windows::new(windows.to_vec())
}

fn open_until(windows: &mut Windows, time: &str) -> Option<String> {
    let open = windows.look(at(time)).open?;
    Some(open.until.rfc3339())
}

#[test]
fn of_several_open_windows_the_one_counts_that_ends_last() {
    let mut windows = windows(&[window("0 2 * * *", 2 * HOUR), window("0 3 * * *", 4 * HOUR)]);
    for (time, until) in [
        ("2026-11-22T01:30:00Z", Some("2026-11-22T03:00:00Z")),
        ("2026-11-22T02:30:00Z", Some("2026-11-22T06:00:00Z")),
        ("2026-11-22T03:30:00Z", Some("2026-11-22T06:00:00Z")),
        ("2026-11-22T06:00:00Z", None),
    ] {
        assert_eq!(open_until(&mut windows, time).as_deref(), until, "{time}");
    }
    assert!(Windows::default().is_empty());
    assert_eq!(
        open_until(&mut Windows::default(), "2026-11-22T01:30:00Z"),
        None
    );
}

#[test]
fn a_window_that_was_ended_opens_again_the_next_time() {
    let daily = window("0 2 * * *", 2 * HOUR);
    let other = window("30 2 * * *", HOUR);
    let mut windows = windows(&[daily.clone(), other.clone()]);
    assert!(open_until(&mut windows, "2026-11-22T01:10:00Z").is_some());
    windows.end(at("2026-11-22T01:10:00Z"));
    assert_eq!(open_until(&mut windows, "2026-11-22T01:20:00Z"), None);
    // It was not open.
    let until = open_until(&mut windows, "2026-11-22T01:40:00Z");
    assert_eq!(until.as_deref(), Some("2026-11-22T02:30:00Z"));
    // The clock is set back: the window was ended, and stays so.
    assert_eq!(open_until(&mut windows, "2026-11-22T01:15:00Z"), None);
    // Other windows: the one that is the same stays ended.
    windows.replace(vec![daily.clone()]);
    assert_eq!(open_until(&mut windows, "2026-11-22T01:40:00Z"), None);
    let until = open_until(&mut windows, "2026-11-23T01:00:00Z");
    assert_eq!(until.as_deref(), Some("2026-11-23T03:00:00Z"));
    windows.end(at("2026-11-23T01:00:00Z"));
    windows.replace(vec![window("0 2 * * *", 3 * HOUR)]);
    let until = open_until(&mut windows, "2026-11-23T01:10:00Z");
    assert_eq!(until.as_deref(), Some("2026-11-23T04:00:00Z"));
}

#[test]
fn a_clock_that_is_set_neither_keeps_a_window_open_nor_skips_one_silently() {
    let mut windows = windows(&[window("0 2 * * *", 2 * HOUR)]);
    let look = |windows: &mut Windows, time: &str| {
        let Look { open, missed, .. } = windows.look(at(time));
        (open.is_some(), missed.map(Timestamp::rfc3339))
    };
    assert_eq!(look(&mut windows, "2026-11-22T01:30:00Z"), (true, None));
    // An hour back: it has not begun. Then it begins once more.
    assert_eq!(look(&mut windows, "2026-11-22T00:30:00Z"), (false, None));
    assert_eq!(look(&mut windows, "2026-11-22T01:00:00Z"), (true, None));
    // Forward, beyond its end: it was noticed.
    assert_eq!(look(&mut windows, "2026-11-22T08:00:00Z"), (false, None));
    // Over a whole window.
    let missed = Some("2026-11-23T03:00:00Z".to_owned());
    assert_eq!(look(&mut windows, "2026-11-23T04:00:00Z"), (false, missed));
    // Into the middle of one, and years on.
    assert_eq!(look(&mut windows, "2026-11-24T02:00:00Z"), (true, None));
    let (open, missed) = look(&mut windows, "2066-11-24T00:00:00Z");
    assert_eq!((open, missed.is_some()), (false, true));
    assert_eq!(look(&mut windows, "2026-11-24T02:00:00Z"), (true, None));
}

#[test]
fn the_time_of_day_is_read_when_something_changes_and_every_ten_seconds() {
    let mut windows = windows(&[window("0 2 * * *", 2 * HOUR)]);
    for (time, again) in [
        ("2026-11-22T00:00:00Z", 10_000),
        ("2026-11-22T00:59:58.500Z", 1_500),
        ("2026-11-22T01:00:00Z", 10_000),
        ("2026-11-22T02:59:59Z", 1_000),
        ("2026-11-22T03:00:00Z", 10_000),
    ] {
        let look = windows.look(at(time));
        assert_eq!(look.again, Duration::from_millis(again), "{time}");
    }
}
