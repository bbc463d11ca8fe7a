//! Valid and invalid files of scenarios, and the error messages.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Suite, ScenarioError> {
    Suite::parse(text, Path::new("scenarios.toml"))
}

/// The error of a file whose second scenario has these lines.
fn wrong(lines: &str) -> String {
    let text = format!(
        "[[scenario]]\nname = \"first\"\nexpect = {{}}\n\n[[scenario]]\nname = \"odd one\"\n{lines}\n"
    );
    parse(&text).unwrap_err().to_string()
}

#[test]
fn a_list_is_not_taken_for_a_table() {
    for (lines, expected) in [
        ("expect = [\"transient\"]", "a table of what is expected"),
        (
            "expect = { delay = [\"1s\", \"2s\"] }",
            "a duration with its unit",
        ),
        ("expect = { reason = [\"x\"] }", "a text, or { contains"),
        (
            "sequence = [[\"transient\"]]",
            "a table of what is expected of an attempt",
        ),
        ("sequence = { delay = \"1s\" }", "a list"),
        (
            "failure = [\"throttled\"]\nexpect = {}",
            "a table that describes the failure",
        ),
        (
            "settings = [\"base=2s\"]\nexpect = {}",
            "a table of settings",
        ),
    ] {
        let message = wrong(lines);
        assert!(message.contains("line 7, column "), "{message}");
        let expected = format!("expected {expected}");
        assert!(
            message.contains(&expected),
            "{expected:?} is not in: {message}"
        );
        backstop_files::mistake::names_no_type(&message);
    }
    for text in [
        "failure = [\"throttled\"]",
        "scenario = [[\"a\"]]",
        "scenario = \"a\"",
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(
            message.contains("line 1, column ") && message.contains("expected a "),
            "{message}"
        );
        backstop_files::mistake::names_no_type(&message);
    }
}

#[test]
fn an_error_names_the_location_the_scenario_and_what_is_expected() {
    for (lines, place, expected) in [
        (
            "expect = { wait = \"1s\" }",
            "line 7, column 12",
            "expected one of `class`, `verdict`, `reason`, `delay`",
        ),
        (
            "expect = { delay = \"1\" }",
            "line 7, column 20",
            "expected a duration with its unit",
        ),
        (
            "expect = { delay = { max = 5 } }",
            "line 7, column 28",
            "expected a duration with its unit",
        ),
        (
            "expect = { delay = { min = \"2s\", max = \"1s\" } }",
            "line 7, column 20",
            "`min` is above `max`",
        ),
        (
            "expect = { delay = {} }",
            "line 7, column 20",
            "expected at least one of `min`, `max` and `mean`",
        ),
        (
            "expect = { verdict = \"retries\" }",
            "line 7, column 22",
            "expected one of `retry`, `dead-letter`, `discard`",
        ),
        (
            "expect = { reason = { containing = \"x\" } }",
            "line 7, column 23",
            "expected `contains`",
        ),
        (
            "failure = { preset = \"throttle\" }\nexpect = {}",
            "line 7, column 22",
            "there is no preset `throttle`: expected one of throttled",
        ),
        (
            "failure = { random = 1 }\nexpect = {}",
            "line 7, column 22",
            "from 0 to below 1",
        ),
        (
            "failure = { attempt = 0 }\nexpect = {}",
            "line 7, column 23",
            "failure.attempt: expected a whole number from 1, not the number 0",
        ),
        (
            "failure = { failed-at = 2026-01-01 }\nexpect = {}",
            "line 7, column 25",
            "such as 2026-01-01T09:30:00Z",
        ),
        (
            "expect = { over = 1, class = \"transient\" }",
            "line 7, column 19",
            "expected 2 to 1000000",
        ),
    ] {
        let message = wrong(lines);
        let start = format!("scenarios.toml: scenario `odd one`: {place}: ");
        assert!(message.starts_with(&start), "{start:?}\n{message}");
        assert!(message.contains(expected), "{expected:?}\n{message}");
    }
}

#[test]
fn contradictory_keys_are_rejected() {
    for (lines, expected) in [
        ("", "expected `expect = { ... }` or `sequence = [ ... ]`"),
        ("expect = {}\nsequence = [{}]", "not both"),
        ("sequence = []", "at least one attempt"),
        (
            "sequence = [{ verdict = \"discard\" }, {}]",
            "would never happen",
        ),
        (
            "sequence = [{ delay = { mean = [\"1s\", \"2s\"] } }]",
            "an attempt has one",
        ),
        (
            "expect = { delay = { mean = [\"1s\", \"2s\"] } }",
            "such as over = 1000",
        ),
        (
            "expect = { delay = { mean = [\"2s\", \"1s\"] }, over = 2 }",
            "the first of `mean` is above the second",
        ),
        (
            "expect = { verdict = \"dead-letter\", delay = \"1s\" }",
            "only the verdict retry has a delay",
        ),
        (
            "expect = { reason = \"x\", delay = \"1s\" }",
            "no answer has both",
        ),
        (
            "expect = { verdict = \"retry\", reason = \"x\" }",
            "has no reason",
        ),
        (
            "expect = { refused = \"x\", class = \"transient\" }",
            "remove the other keys next to",
        ),
        (
            "expect = { attempts = 3, over = 5 }",
            "can't be combined with",
        ),
        (
            "expect = { attempts = 3, verdict = \"retry\" }",
            "about giving up",
        ),
        (
            "failure = { random = 0 }\nexpect = { over = 5 }",
            "remove one of the two",
        ),
        ("took = \"1s\"\nexpect = {}", "only used with `sequence`"),
    ] {
        let message = wrong(lines);
        assert!(message.contains("scenario `odd one`: line "), "{message}");
        assert!(message.contains(expected), "{expected:?}\n{message}");
    }
}

#[test]
fn names_are_unique_and_required() {
    let message = wrong("expect = {}\n[[scenario]]\nname = \"first\"\nexpect = {}");
    assert!(
        message.contains("scenario `first`: line 9, column 8: another scenario has this name too"),
        "{message}"
    );
    let message = parse("[[scenario]]\nname = \"\"\nexpect = {}")
        .unwrap_err()
        .to_string();
    assert!(message.contains("expected a name"), "{message}");
    let message = parse("[[scenario]]\nexpect = {}").unwrap_err().to_string();
    assert!(message.contains("the key `name` is missing"), "{message}");
}

#[test]
fn an_error_outside_of_scenarios_names_no_scenario() {
    for (text, expected) in [
        (
            "odd = {}",
            "expected one of `settings`, `failure`, `longest-delay`, `scenario`",
        ),
        ("longest-delay = \"50d\"", "at most \"49d\""),
        (
            "settings = { base = {} }",
            "a text, a number, true or false, or a list of texts",
        ),
        (
            "settings = { permanent = [\"A\", \"B,C\"] }",
            "a text that is not empty and has no comma",
        ),
        (
            "settings = { permanent = [503] }",
            "a text that is not empty and has no comma",
        ),
        ("= 1", "line 1, column 1"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.starts_with("scenarios.toml: line 1, "), "{message}");
        assert!(message.contains(expected), "{expected:?}\n{message}");
    }
    let message = Suite::read(Path::new("/nowhere/scenarios.toml")).unwrap_err();
    assert_eq!(
        message.to_string(),
        "can't read the scenarios /nowhere/scenarios.toml"
    );
}

#[test]
fn a_scenario_starts_from_the_defaults_of_the_file() {
    let suite = parse(
        r#"
        settings = { base = "2s", max-attempts = 5 }
        failure = { preset = "http-429", source = "arn:aws:sqs:eu-west-1:123456789012:orders" }
        longest-delay = "3d"

        [[scenario]]
        name = "one"
        settings = { base = "4s" }
        failure = { attempt = 3 }
        payload = { order = { id = 7, at = 2026-01-01T00:00:00Z, lines = [1.5, true, "x"] } }
        expect = {}

        [[scenario]]
        name = "two"
        payload = 'unchanged'
        expect = { attempts = 2 }
        took = "1s"
        "#,
    )
    .unwrap();
    assert_eq!(suite.longest_delay, Milliseconds(3 * 86_400_000));
    let pairs: Vec<_> = suite
        .settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(pairs, [("base", "2s"), ("max-attempts", "5")]);
    let [one, two] = suite.scenarios.as_slice() else {
        panic!("{suite:?}")
    };
    let failure = one.given.failure();
    assert_eq!(
        (failure.error.status, failure.attempt.get()),
        (Some(429), 3)
    );
    assert!(failure.source.ends_with(":orders"));
    assert_eq!(
        one.payload,
        r#"{"order":{"at":"2026-01-01T00:00:00Z","id":7,"lines":[1.5,true,"x"]}}"#
    );
    assert_eq!((one.line, two.line), (6, 13));
    assert_eq!(two.payload, "unchanged");
    assert!(
        matches!(
            two.plan,
            Plan::GivesUp {
                took: Milliseconds(1_000),
                ..
            }
        ),
        "{:?}",
        two.plan
    );
}

#[test]
fn no_error_message_contains_names_of_rust_types() {
    const VALUES: [&str; 9] = [
        "5",
        "-1",
        "1.5",
        "99999999999999999999",
        "\"odd one\"",
        "true",
        "[1]",
        "{ odd = 1 }",
        "2026-01-01",
    ];
    for (table, keys) in [
        (
            "failure",
            "preset code message status retry-after details attempt age failed-at previous-delay message-id source attributes random",
        ),
        (
            "expect",
            "class verdict reason delay log over refused attempts within",
        ),
        ("expect.delay", "min max mean"),
        ("settings", "base"),
        ("", "name took sequence expect failure settings"),
    ] {
        for key in keys.split(' ') {
            let mut refused = 0;
            for value in VALUES {
                let key = match table {
                    "" => key.to_owned(),
                    table => format!("{table}.{key}"),
                };
                let named = if key == "name" {
                    ""
                } else {
                    "name = \"odd one\"\n"
                };
                let text = format!("[[scenario]]\n{named}{key} = {value}\n");
                let Err(message) = parse(&text) else { continue };
                backstop_files::mistake::names_no_type(&message.to_string());
                refused += 1;
            }
            assert!(refused > 1, "{table} {key}: refused {refused} times");
        }
    }
}
