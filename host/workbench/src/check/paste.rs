//! Writes a failure as a scenario, to paste into an author's file. Fields with their default value are left out.

use backstop_backoff::format_duration;
use toml::Value;

use super::fuzz::Fault;
use super::generate::Case;
use super::plan::Plan;
use backstop_core::failure::{Milliseconds, Timestamp, random};
use backstop_versions::scenario::plain_failure;

/// The scenario that fails because of this fault, and passes once it is fixed.
pub(super) fn scenario(case: &Case, fault: Fault, plan: &Plan<'_>) -> String {
    let (what, expect) = match fault {
        Fault::Trap => ("does not trap", "{}".to_owned()),
        Fault::Limit => ("ends within its limits", "{}".to_owned()),
        Fault::InvalidAnswer => ("gives a valid answer", "{}".to_owned()),
        Fault::Order => ("gives the same answer in any order", "{}".to_owned()),
        Fault::Delay => (
            "does not exceed the longest delay",
            format!("{{ delay = {{ max = \"{}\" }} }}", plan.longest_delay),
        ),
    };
    let attempt = case.failure.attempt;
    let mut text = format!("[[scenario]]\nname = \"attempt {attempt} {what}\"\n");
    if !plan.settings.is_empty() {
        text.push_str(&format!("settings = {}\n", table(plan.settings)));
    }
    text.push_str(&format!("failure = {}\n", failure(case)));
    if !case.body.is_empty() {
        text.push_str(&format!("payload = {}\n", string(&case.body)));
    }
    text.push_str(&format!("expect = {expect}\n"));
    text
}

fn failure(case: &Case) -> String {
    let (failure, plain) = (&case.failure, plain_failure());
    let (error, at) = (&failure.error, failure.failed_at);
    let duration = |it: Milliseconds| string(&format_duration(it.0.into()));
    let optional = |it: Option<Milliseconds>| duration(it.unwrap_or_default());
    let status = error.status.unwrap_or_default().to_string();
    let default_random = random(&failure.message_id, failure.attempt);
    let mut fields = Vec::new();
    let mut add = |name: &str, is_set: bool, value: String| {
        fields.extend(is_set.then(|| format!("{name} = {value}")));
    };
    add("code", error.code != plain.error.code, string(&error.code));
    add("message", !error.message.is_empty(), string(&error.message));
    add("status", error.status.is_some(), status);
    add(
        "retry-after",
        error.retry_after.is_some(),
        optional(error.retry_after),
    );
    add("details", !error.details.is_empty(), table(&error.details));
    add(
        "attempt",
        failure.attempt != plain.attempt,
        failure.attempt.to_string(),
    );
    add("age", failure.age != plain.age, duration(failure.age));
    add("failed-at", at != plain.failed_at, moment(at));
    add(
        "previous-delay",
        failure.previous_delay.is_some(),
        optional(failure.previous_delay),
    );
    add(
        "message-id",
        failure.message_id != plain.message_id,
        string(&failure.message_id),
    );
    add(
        "source",
        failure.source != plain.source,
        string(&failure.source),
    );
    add(
        "attributes",
        !failure.attributes.is_empty(),
        table(&failure.attributes),
    );
    let exact = Value::Float(failure.random).to_string();
    add("random", failure.random != default_random, exact);
    match fields.as_slice() {
        [] => "{}".to_owned(),
        fields => format!("{{ {} }}", fields.join(", ")),
    }
}

/// A TOML string on one line, with odd characters escaped.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            odd if odd.is_control() || is_invisible(odd) => {
                quoted.push_str(&format!("\\U{:08X}", u32::from(odd)));
            }
            usual => quoted.push(usual),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a character is invisible or changes how the text around it is shown.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{300}'..='\u{36f}')
}

fn table(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{} = {}", key(name), string(value)))
        .collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        string(name)
    }
}

fn moment(at: Timestamp) -> String {
    let milliseconds = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(milliseconds)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::generate::{Vocabulary, cases};
    use backstop_versions::scenario::Suite;
    use std::path::Path;

    #[test]
    fn a_pasted_scenario_is_read_as_the_same_failure() {
        let settings = [("base", "2s")].into();
        let plan = Plan {
            settings: &settings,
            longest_delay: Milliseconds(43_200_000),
            scenarios: &[],
            seed: 0,
            cases: None,
        };
        for case in cases(3, &Vocabulary::of(&[])).take(300) {
            let text = scenario(&case, Fault::Delay, &plan);
            let suite = Suite::parse(&text, Path::new("pasted.toml"))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            let read = suite.scenarios.first().unwrap();
            assert_eq!(read.given.failure(), case.failure, "{text}");
            assert_eq!((&read.payload, &read.settings), (&case.body, &settings));
        }
    }
}
