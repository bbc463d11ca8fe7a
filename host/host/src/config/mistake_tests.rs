//! Every key of the configuration with every kind of invalid value: the error names the key, and no type of this program.

use super::queue::function;
use super::*;
use backstop_files::mistake::names_no_type;

/// A value of each kind, and some that no key accepts.
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

/// The tables of the file: the line that opens each, and the lines that it requires.
const TABLES: [(&str, &str); 11] = [
    ("", ""),
    ("[decisions]", ""),
    ("[limits]", ""),
    ("[policies]", ""),
    ("[policies.rollback]", ""),
    ("[lambda]", ""),
    ("[lambda.policy]", ""),
    (
        "[queues.q]",
        "url = \"local:q\"\nhandler = { exec = \"true\" }",
    ),
    ("[queues.q.handler]", ""),
    (
        "[queues.q]\nurl = \"local:q\"\nhandler = { exec = \"true\" }\n[queues.q.idempotency]",
        "table = \"t\"",
    ),
    (
        "[queues.q]\nurl = \"local:q\"\nhandler = { exec = \"true\" }\nidempotency.table = \"t\"\n[queues.q.idempotency.attributes]",
        "sort-key = \"sk\"",
    ),
];

fn rejection(text: &str) -> Option<String> {
    let error = Config::parse(text, Path::new("backstop.toml")).err()?;
    let message = format!("{:#}", anyhow::Error::from(error));
    // Everything else is valid.
    (!message.starts_with("queues: expected at least one queue")).then_some(message)
}

/// The keys of a table, as the error about an unknown one lists them.
fn keys(table: &str) -> Vec<String> {
    let text = format!("{table}\nunheard-of = 1");
    let message = rejection(&text).unwrap();
    let (_, known) = message.split_once(", expected ").unwrap();
    let known = known.lines().next().unwrap_or_default();
    known
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_error_about_a_value_names_a_type() {
    for (table, needed) in TABLES {
        let keys = keys(table);
        assert!(!keys.is_empty(), "{table}");
        for key in keys {
            let mut refused = 0;
            for value in VALUES {
                let given = |line: &&str| !line.starts_with(&format!("{key} "));
                let needed: Vec<_> = needed.lines().filter(given).collect();
                let text = format!("{table}\n{}\n{key} = {value}\n", needed.join("\n"));
                let Some(message) = rejection(&text) else {
                    continue;
                };
                names_no_type(&message);
                let names = message.contains(&key) || message.contains("is missing");
                assert!(names, "{key} = {value} in {table}: {message}");
                refused += 1;
            }
            assert!(refused > 3, "{table} {key}: refused {refused} times");
        }
    }
}

#[test]
fn an_error_has_the_line_the_key_and_what_is_expected() {
    const QUEUE: &str = "[queues.orders]\nurl = \"local:orders\"\nhandler = { exec = \"true\" }\n";
    for (line, right) in [
        (
            "grace = 5",
            "line 4, column 9: queues.orders.grace: expected a duration with its unit, such as \"30s\", \"15m\" or \"12h\", not the number 5",
        ),
        (
            "max-attempts = \"8\"",
            "queues.orders.max-attempts: expected a whole number from 0, not the text \"8\"",
        ),
        (
            "scenarios = 5",
            "queues.orders.scenarios: expected a path in quotes, not the number 5",
        ),
        (
            "policy = 5",
            "queues.orders.policy: expected a policy's name or path, or a table with",
        ),
        (
            "settings = \"base=2s\"",
            "queues.orders.settings: expected a table of settings, such as {",
        ),
        (
            "gracious = 5",
            "line 4, column 1: queues.orders: unknown key `gracious`, expected one of `url`",
        ),
        (
            "[queues.other]\nurl = \"local:other\"",
            "queues.other: the key `handler` is missing",
        ),
        (
            "[queues.other]\nurl = \"local:other\"\nhandler = \"http://127.0.0.1/\"",
            "queues.other.handler: expected a table with `http`, `exec` or `lambda`, such as { http = \"http://127.0.0.1:8080/\" }, not the text",
        ),
        (
            "[limits]\nmemory = 1.5",
            "limits.memory: expected a number of bytes, such as \"64MiB\", \"4KiB\" or 4096, not the number 1.5",
        ),
        (
            "[lambda]\nfunctions = \"orders\"",
            "lambda.functions: expected a list, such as [\"a\", \"b\"], not the text \"orders\"",
        ),
    ] {
        let message = rejection(&format!("{QUEUE}{line}")).unwrap();
        assert!(message.contains(right), "{right:?} is not in: {message}");
        assert!(message.starts_with("backstop.toml: line "), "{message}");
    }
}

#[test]
fn a_list_is_not_a_table() {
    const QUEUE: &str = "[queues.q]\nurl = \"local:q\"\n";
    const HANDLED: &str = "[queues.q]\nurl = \"local:q\"\nhandler = { exec = \"true\" }\n";
    for (before, key, list, right) in [
        ("", "decisions", "[\"x\"]", "a table with `record`"),
        ("", "limits", "[1, \"1s\"]", "a table of limits"),
        (
            "[limits]\n",
            "limits.compile",
            "[\"5m\", \"2m\"]",
            "a table of `time`, `cpu`",
        ),
        ("", "policies", "[\"off\", \"1m\"]", "a table of `cache`"),
        (
            "[policies]\n",
            "policies.rollback",
            "[5, \"1m\"]",
            "a table of `broken`",
        ),
        (
            "",
            "lambda",
            "[\"https://sqs/1/q\"]",
            "a table, such as [lambda]",
        ),
        ("", "lambda", "[{}]", "a table, such as [lambda]"),
        (
            "[lambda]\n",
            "lambda.policy",
            "[\"linear\"]",
            "a policy's name or path",
        ),
        (
            "[lambda]\n",
            "lambda.settings",
            "[\"base=2s\"]",
            "a table of settings",
        ),
        ("", "queues", "[\"q\"]", "a table"),
        (
            "[queues]\n",
            "queues.q",
            "[\"local:q\", \"local:d\"]",
            "a table, such as [queues.orders]",
        ),
        (
            QUEUE,
            "queues.q.handler",
            "[\"http://127.0.0.1/\"]",
            "a table with `http`",
        ),
        (
            HANDLED,
            "queues.q.policy",
            "[\"linear\"]",
            "a policy's name or path",
        ),
        (
            HANDLED,
            "queues.q.policy.backoff",
            "[\"linear\"]",
            "a component's name or path",
        ),
        (
            HANDLED,
            "queues.q.policy.backoff.settings",
            "[1]",
            "a table of settings",
        ),
        (
            HANDLED,
            "queues.q.settings",
            "[[\"base\", \"2s\"]]",
            "a table of settings",
        ),
        (
            HANDLED,
            "queues.q.shadow",
            "[\"linear\"]",
            "a policy's name or path",
        ),
        (
            HANDLED,
            "queues.q.shadow-settings",
            "[\"a\"]",
            "a table of settings",
        ),
    ] {
        let table = before.rsplit(['[', ']']).nth(1).unwrap_or_default();
        let within = key.strip_prefix(table).unwrap_or(key);
        let text = format!("{before}{} = {list}", within.trim_start_matches('.'));
        let message = rejection(&text).unwrap_or_else(|| panic!("accepted: {text}"));
        names_no_type(&message);
        let line = text.lines().count();
        assert!(
            message.starts_with(&format!("backstop.toml: line {line}, ")),
            "{message}"
        );
        let right = format!("{key}: expected {right}");
        assert!(message.contains(&right), "{right:?} is not in: {message}");
        assert!(message.contains(", not a list\n"), "{message}");
    }
    for (header, key) in [
        ("[[decisions]]\nrecord = \"x\"", "decisions"),
        ("[[limits]]\nfuel = 1", "limits"),
        ("[[queues]]\nurl = \"local:q\"", "queues"),
        ("[[queues.q]]\nurl = \"local:q\"", "queues.q"),
    ] {
        let message = rejection(header).unwrap_or_else(|| panic!("accepted: {header}"));
        assert!(
            message.contains(&format!("{key}: expected a table")),
            "{message}"
        );
    }
}

#[test]
fn invalid_names_are_rejected() {
    for name in [
        "",
        " ",
        "a b",
        "orders:",
        "arn:aws:lambda:eu-west-1:1:layer:orders",
    ] {
        for (place, text) in [
            (
                "queues.q.handler.lambda",
                format!("[queues.q]\nurl = \"local:q\"\nhandler = {{ lambda = \"{name}\" }}"),
            ),
            (
                "lambda.functions",
                format!("[lambda]\nfunctions = [\"orders\", \"{name}\"]"),
            ),
            ("lambda.handler", format!("[lambda]\nhandler = \"{name}\"")),
        ] {
            let message = rejection(&text).unwrap_or_else(|| panic!("accepted: {text}"));
            let right = format!("{place}: `{name}` is not a function: expected a name or an ARN");
            assert!(message.contains(&right), "{message}");
        }
    }
    let long = "f".repeat(257);
    assert!(function("--lambda", long).is_err());
    for name in [
        "orders",
        "orders:live",
        "1:function:orders",
        "arn:aws:lambda:eu-west-1:1:function:orders:7",
    ] {
        assert!(function("--lambda", name.to_owned()).is_ok(), "{name}");
    }
    for name in ["", " "] {
        let message = rejection(&format!(
            "[queues.\"{name}\"]\nurl = \"local:q\"\nhandler = {{ exec = \"true\" }}"
        ))
        .unwrap();
        assert!(
            message.contains(": queues: a queue has no name"),
            "{message}"
        );
    }
}

#[test]
fn an_endpoint_is_a_scheme_a_host_and_a_port() {
    for good in [
        "http://localhost:4566",
        "https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com",
        "http://[::1]:4566/",
    ] {
        assert_eq!(
            rejection(&format!("endpoint-url = \"{good}\"\n[lambda]")),
            None,
            "{good}"
        );
    }
    for (bad, why) in [
        (
            "localhost:4566",
            "no scheme, expected http://localhost:4566",
        ),
        ("localhost", "no scheme, expected http://localhost"),
        ("ftp://localhost", "expected http:// or https://"),
        ("http://", "no host"),
        (
            "http://localhost:99999",
            "the port is not a number up to 65535",
        ),
        (
            "http://localhost:http",
            "the port is not a number up to 65535",
        ),
        ("http://localhost:4566/000000000000/orders", "a path"),
        ("http://localhost:4566?x=1", "a query"),
        ("", "no scheme"),
    ] {
        let message = rejection(&format!("endpoint-url = \"{bad}\"\n[lambda]")).unwrap();
        assert!(
            message.contains("line 1, column 1: endpoint-url: "),
            "{message}"
        );
        assert!(message.contains(why), "{bad}: {why:?} is not in: {message}");
        names_no_type(&message);
        assert!(parse_endpoint(bad).is_err());
    }
    let message =
        rejection("[queues.q]\nurl = \"http://localhost:99999/q\"\nhandler = { exec = \"true\" }")
            .unwrap();
    assert!(
        message.contains(": queues.q.url: ") && message.contains("up to 65535"),
        "{message}"
    );
}
