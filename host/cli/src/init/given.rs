//! What a person gives: by flags, or by answers where there is a terminal.

use std::io::IsTerminal as _;

use backstop_queue::short_name;
use clap::Parser;

use crate::error::{Exit, Result};
use crate::terminal::prompt;

/// The flags that say what to serve.
#[derive(Debug, Clone, Parser)]
pub(super) struct Flags {
    /// The queue: its URL, or local:NAME for a queue in memory [default: asked]
    #[arg(long, value_name = "URL")]
    queue_url: Option<String>,

    /// POST each message to this URL; 2xx is success
    #[arg(long, value_name = "URL", group = "handler")]
    http: Option<String>,

    /// Run this command for each message, with the body on its standard input; exit status 0 is success. A relative path starts at the folder of the configuration
    #[arg(long, value_name = "COMMAND", group = "handler")]
    exec: Option<String>,

    /// Invoke this Lambda function with each message and wait for its response
    #[arg(long, value_name = "NAME|ARN", group = "handler")]
    lambda: Option<String>,

    /// The policy, as for `backstop run`
    #[arg(long, value_name = "NAME|PATH|URL", default_value = "full-jitter")]
    policy: String,

    /// The dead-letter queue [default: the one in the queue's redrive policy]
    #[arg(long, value_name = "URL")]
    dead_letter_queue: Option<String>,

    /// The name of the queue in logs, metrics and commands [default: that of its URL]
    #[arg(long)]
    name: Option<String>,
}

/// What does the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Handler {
    Http(String),
    Exec(Vec<String>),
    Lambda(String),
}

/// Everything that has to be known besides the queue's own attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) url: String,
    pub(super) handler: Handler,
    pub(super) policy: String,
    pub(super) dead_letter_queue: Option<String>,
    pub(super) name: String,
}

impl Flags {
    /// Asks for what is missing, if there is a terminal; otherwise it says which flags are.
    pub(super) fn complete(self) -> Result<Given> {
        let handler = self.handler()?;
        let mut missing = Vec::new();
        if self.queue_url.is_none() {
            missing.push("--queue-url");
        }
        if handler.is_none() {
            missing.push("one of --http, --exec and --lambda");
        }
        if !missing.is_empty() && !std::io::stdin().is_terminal() {
            return Err(Exit::Usage.because(format!(
                "standard input is no terminal to ask questions on: give {}",
                missing.join(", and ")
            )));
        }
        let url = match self.queue_url {
            Some(url) => url,
            None => asked("The URL of the queue, or local:NAME for one in memory: ")?,
        };
        let handler = match handler {
            Some(handler) => handler,
            None => Handler::parse(&asked(
                "What does the work: the URL of an HTTP worker, lambda:FUNCTION, or a command: ",
            )?)?,
        };
        Ok(Given {
            name: self.name.unwrap_or_else(|| name_of(&url)),
            url,
            handler,
            policy: self.policy,
            dead_letter_queue: self.dead_letter_queue,
        })
    }

    fn handler(&self) -> Result<Option<Handler>> {
        let http = self.http.clone().map(Handler::Http);
        let lambda = self.lambda.clone().map(Handler::Lambda);
        let exec = self.exec.as_deref().map(command).transpose()?;
        Ok(http.or(lambda).or(exec))
    }
}

impl Handler {
    /// The port of an HTTP worker.
    pub(super) fn port(&self) -> Option<u16> {
        let Self::Http(url) = self else {
            return None;
        };
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let port = authority.rsplit_once(':').map(|(_, port)| port.parse());
        match port {
            Some(Ok(port)) => Some(port),
            // The colons of an IPv6 address.
            Some(Err(_)) | None if scheme.eq_ignore_ascii_case("https") => Some(443),
            Some(Err(_)) | None => Some(80),
        }
    }

    /// Parses an answer: its beginning says which kind it is.
    fn parse(answer: &str) -> Result<Self> {
        if answer.starts_with("http://") || answer.starts_with("https://") {
            return Ok(Self::Http(answer.to_owned()));
        }
        match answer.strip_prefix("lambda:") {
            Some(function) => Ok(Self::Lambda(function.to_owned())),
            None => command(answer),
        }
    }
}

/// A command line, split into words as a shell does.
fn command(line: &str) -> Result<Handler> {
    match shlex::split(line) {
        Some(words) if !words.is_empty() => Ok(Handler::Exec(words)),
        Some(_) | None => Err(Exit::Usage.because(format!(
            "`{line}` is no command: expected a program and its arguments, such as './work.sh --fast', with each quote closed"
        ))),
    }
}

/// An answer that is not empty.
fn asked(question: &str) -> Result<String> {
    match prompt::line(question) {
        Some(answer) if !answer.is_empty() => Ok(answer),
        Some(_) | None => Err(Exit::Usage.because("no answer: nothing was written")),
    }
}

/// The last part of a URL, as far as it can be the name of a table without quotes.
fn name_of(url: &str) -> String {
    let name = short_name(url.strip_prefix("local:").unwrap_or(url));
    let name = name.strip_suffix(".fifo").unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    if name.is_empty() {
        "queue".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_answer_says_what_does_the_work() {
        for (answer, expected) in [
            (
                "http://127.0.0.1:8080/",
                Handler::Http("http://127.0.0.1:8080/".to_owned()),
            ),
            ("lambda:ship:live", Handler::Lambda("ship:live".to_owned())),
            (
                "./work.sh 'a b'",
                Handler::Exec(vec!["./work.sh".to_owned(), "a b".to_owned()]),
            ),
        ] {
            assert_eq!(Handler::parse(answer).ok(), Some(expected), "{answer}");
        }
        assert!(Handler::parse("./work.sh 'a").is_err());
    }

    #[test]
    fn a_worker_has_the_port_of_its_url() {
        for (url, expected) in [
            ("http://127.0.0.1:3000/work", 3000),
            ("http://user:1@worker:3000?a=b:1", 3000),
            ("http://[::1]:3000", 3000),
            ("http://[::1]/a:1", 80),
            ("https://worker/", 443),
        ] {
            let handler = Handler::Http(url.to_owned());
            assert_eq!(handler.port(), Some(expected), "{url}");
        }
        assert_eq!(Handler::Lambda("ship".to_owned()).port(), None);
    }

    #[test]
    fn a_table_is_named_after_its_queue() {
        for (url, expected) in [
            (
                "https://sqs.eu-west-1.amazonaws.com/1/orders.fifo",
                "orders",
            ),
            ("local:try", "try"),
            ("http://127.0.0.1:4566/1/a b", "a-b"),
            ("local:", "queue"),
        ] {
            assert_eq!(name_of(url), expected);
        }
    }
}
