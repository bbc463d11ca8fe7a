//! The text of the configuration: few keys, each with the reason for its value.

use serde_json::Value;

use super::given::{Given, Handler};
use super::seen::Seen;

const HEAD: &str = "\
# The queue that `backstop run` serves in this folder. `backstop doctor` checks it.
# All keys, with their defaults: `backstop run --help`, and the document deploy/configuration.md of Backstop's sources.
";

const ADMIN: &str = "
# Probes, metrics, the page and commands from other machines. Other addresses than this one need a token: the document operate/admin.md says how.
# admin = \"127.0.0.1:9465\"
";

const POLICY: &str = "
# Decides about each failure. `backstop policy simulate` shows when retries come, and `backstop policy new` begins one of your own.
";

const RECORDS: &str = "
# Each decision with its reason, for `backstop why` and `backstop policy replay`.
[decisions]
record = \"decisions.jsonl\"
keep = \"1GiB\"
rotate-size = \"64MiB\"
";

/// The configuration of a queue, for this machine.
pub(super) fn text(given: &Given, seen: &Seen, endpoint: Option<&str>) -> String {
    let endpoint = endpoint.map(line).unwrap_or_default();
    let queue = queue(given, seen);
    format!("{HEAD}{endpoint}{ADMIN}{RECORDS}{queue}")
}

/// The same for a pod, which writes no file, and whose first keys are `head`.
pub(super) fn text_in_a_pod(
    given: &Given,
    seen: &Seen,
    endpoint: Option<&str>,
    head: &str,
) -> String {
    let endpoint = endpoint.map(line).unwrap_or_default();
    let queue = queue(given, seen);
    format!("{HEAD}{endpoint}{head}{queue}")
}

/// The line of the endpoint.
fn line(endpoint: &str) -> String {
    format!("endpoint-url = {}\n", quoted(endpoint))
}

/// The table of the queue.
fn queue(given: &Given, seen: &Seen) -> String {
    format!(
        "\n[queues.{}]\nurl = {}\nhandler = {}\n{}{POLICY}policy = {}\n\n{}\nmax-attempts = {}\n",
        key(&given.name),
        quoted(&given.url),
        handler(&given.handler),
        letters(given, seen),
        quoted(&given.policy),
        limit(seen),
        seen.max_attempts,
    )
}

/// The key of the dead-letter queue, or where dead letters go without it.
fn letters(given: &Given, seen: &Seen) -> String {
    match (&given.dead_letter_queue, &seen.dead_letter_queue) {
        (Some(url), _) => format!("dead-letter-queue = {}\n", quoted(url)),
        (None, Some(arn)) => {
            format!("# Dead letters go to the queue of the redrive policy, {arn}.\n")
        }
        (None, None) if seen.is_local() => String::new(),
        (None, None) => {
            "# The queue has no redrive policy, so name the queue for dead letters here:\n# dead-letter-queue = \"URL\"\n".to_owned()
        }
    }
}

/// Why the limit is what it is.
fn limit(seen: &Seen) -> String {
    let receives = match seen.max_receive_count {
        Some(receives) => format!(" The queue allows {receives} receives of a message."),
        None => String::new(),
    };
    format!("# Ends the retries of a message whatever the policy decides.{receives}")
}

fn handler(handler: &Handler) -> String {
    match handler {
        Handler::Http(url) => format!("{{ http = {} }}", quoted(url)),
        Handler::Lambda(function) => format!("{{ lambda = {} }}", quoted(function)),
        Handler::Exec(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!("{{ exec = [{}] }}", words.join(", "))
        }
    }
}

/// A name as a key: in quotes if it needs them.
fn key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A text with the escapes of JSON, which are TOML's too. JSON leaves one control character as it is.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod tests {
    use std::path::Path;

    use backstop_host::config::{Config, HandlerConfig};

    use super::*;

    #[test]
    fn the_text_is_a_valid_configuration_whatever_the_names_are() {
        let odd = "a \"b\" \\ ü \u{7f}\u{1b}";
        let given = Given {
            url: "local:try".to_owned(),
            handler: Handler::Exec(vec!["./work.sh".to_owned(), odd.to_owned()]),
            policy: "linear".to_owned(),
            dead_letter_queue: Some("local:dead".to_owned()),
            name: "o r".to_owned(),
        };
        let seen = Seen {
            arn: "local:try".to_owned(),
            fifo: false,
            visibility_timeout_s: 30,
            retention: backstop_core::failure::Milliseconds(1),
            max_receive_count: Some(5),
            dead_letter_queue: None,
            max_attempts: 5,
        };
        let text = text(&given, &seen, Some("http://127.0.0.1:4566"));
        let config = Config::parse(&text, Path::new("/x/backstop.toml")).unwrap();
        let queue = config.queues.first().unwrap();
        assert_eq!(queue.name, "o r");
        assert_eq!(
            queue.handler,
            HandlerConfig::Exec("/x/./work.sh".to_owned(), vec![odd.to_owned()])
        );
        assert_eq!(
            queue.dead_letter_queues.default.as_deref(),
            Some("local:dead")
        );
        assert_eq!(
            queue.decider.bounds.max_attempts.map(|it| it.get()),
            Some(5)
        );
    }
}
