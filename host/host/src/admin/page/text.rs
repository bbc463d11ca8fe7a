//! Numbers, times and texts as the page shows them, and tables as files.

use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::{one_line, visible};
use maud::{Markup, html};
use serde_json::{Map, Value};

/// The longest duration of a form: SQS keeps a message for 14 days at most.
const LONGEST: Duration = Duration::from_secs(14 * 86_400);

/// A text from outside: one line in which every character shows.
pub(super) fn shown(text: &str) -> String {
    visible(&one_line(text)).into_owned()
}

/// `120,000`
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage; nothing of nothing.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        whole => {
            let tenths = u128::from(part) * 1_000 / u128::from(whole);
            format!("{}.{} %", tenths / 10, tenths % 10)
        }
    }
}

/// A duration in whole units: `40s`, `12m`, `3h`.
pub(super) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time, and how far away it is.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    let away = if at.0 > now.0 {
        format!("in {}", duration(at.0 - now.0))
    } else {
        format!("{} ago", duration(now.0 - at.0))
    };
    let full = at.rfc3339();
    html! { time datetime=(full) title=(full) { (away) } }
}

/// The time of day of a chart's end: `09:41`.
pub(super) fn clock(at: Timestamp) -> String {
    at.rfc3339().get(11..16).unwrap_or_default().to_owned()
}

/// `2026-11-26 09:41`
pub(super) fn day_and_clock(at: Timestamp) -> String {
    let text = at.rfc3339().replace('T', " ");
    text.get(..16).unwrap_or_default().to_owned()
}

/// `/waiting?queue=orders&code=HTTP+503`
pub(super) fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(given)
        .finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// A duration that somebody wrote into a form, in milliseconds.
pub(super) fn parse_duration(text: &str) -> Option<Milliseconds> {
    if text == "0" {
        return Some(Milliseconds(0));
    }
    let span = backstop_files::values::parse_span(text).ok()?;
    (span <= LONGEST).then(|| Milliseconds::from_duration(span))
}

/// A table to keep as a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) names: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// CSV as RFC 4180 has it. A field that a spreadsheet would take for a formula begins with an apostrophe.
    pub(super) fn csv(&self) -> String {
        let field = |text: &str| {
            let text = shown(text);
            let is_formula = text.starts_with(['=', '+', '-', '@', '\\']);
            let sign = if is_formula { "'" } else { "" };
            format!("\"{sign}{}\"", text.replace('"', "\"\""))
        };
        let names = self.names.iter().map(|name| field(name));
        let mut lines = vec![names.collect::<Vec<_>>().join(",")];
        for row in &self.rows {
            let row: Vec<_> = row.iter().map(|text| field(text)).collect();
            lines.push(row.join(","));
        }
        lines.iter().map(|line| format!("{line}\r\n")).collect()
    }

    /// A list of objects.
    pub(super) fn json(&self) -> String {
        let object = |row: &Vec<String>| {
            let pairs = self.names.iter().zip(row);
            let pairs = pairs.map(|(name, value)| ((*name).to_owned(), value.clone().into()));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        let rows: Vec<_> = self.rows.iter().map(object).collect();
        format!("{}\n", visible(&Value::from(rows).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        let counts = [0, 999, 1_000, 120_000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "120,000", "1,234,567"]);
        assert_eq!(
            [share(0, 0), share(1, 3), share(5, 5)],
            ["–", "33.3 %", "100.0 %"]
        );
        let durations = [0, 119_000, 120_000, 7_200_000, 172_800_000].map(duration);
        assert_eq!(durations, ["0s", "119s", "2m", "2h", "2d"]);
        assert_eq!(clock(Timestamp(1_767_225_660_000)), "00:01");
    }

    #[test]
    fn a_link_escapes_what_it_has_to() {
        assert_eq!(link("/waiting", &[("queue", "")]), "/waiting");
        let link = link("/waiting", &[("queue", "a b"), ("code", "\"><script>&=#")]);
        assert_eq!(link, "/waiting?queue=a+b&code=%22%3E%3Cscript%3E%26%3D%23");
    }

    #[test]
    fn a_table_runs_nothing_in_a_spreadsheet() {
        let table = Table {
            names: vec!["code", "count"],
            rows: vec![vec![
                "=cmd|' /C calc'!A0".to_owned(),
                "a \"b\"\nc".to_owned(),
            ]],
        };
        let csv = "\"code\",\"count\"\r\n\"'=cmd|' /C calc'!A0\",\"a \"\"b\"\"\\nc\"\r\n";
        assert_eq!(table.csv(), csv);
        let json: Value = serde_json::from_str(&table.json()).unwrap();
        assert_eq!(json[0]["count"], "a \"b\"\nc");
    }
}
